package main

import (
	"io/fs"
	"os"
	"os/exec"

	"golang.org/x/sys/windows"
)

// ofComputer returns a variable that names a part of this computer. Windows itself knows the folder of all users' programs; a service's variables may name another.
func ofComputer(name string) string {
	if name == "ProgramData" {
		if dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, windows.KF_FLAG_DEFAULT); err == nil {
			return dir
		}
	}
	return os.Getenv(name)
}

// accountOf has nothing to change: on Windows administrators may write into the service's folder, whose files the service can read all the same.
func accountOf(fs.FileInfo) (func(*exec.Cmd), error) { return nil, nil }
