package main

// giveBack does nothing: on Windows files inherit the folder's rights.
func giveBack(string) error { return nil }
