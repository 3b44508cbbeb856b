package main

import (
	"cmp"
	"net/http"
	"os"
	"runtime"

	"shoal/internal/service"
)

// about is what GET /v1/about answers: how this program came to the computer, so that the page can say how to remove it.
type about struct {
	OS      string `json:"os"`                // as in Go: "linux", "windows", "darwin"
	Package string `json:"package,omitempty"` // what keeps it: "deb", "rpm" or "image"; empty: nothing that the program knows of
	System  bool   `json:"system"`            // it runs for the whole computer
	Program string `json:"program"`           // where it lies
	Folder  string `json:"folder"`            // what it stores
}

func (s *station) getAbout(w http.ResponseWriter, _ *http.Request) {
	set, exe := s.settings(), cmp.Or(os.Getenv(envInstalled), installedPath()) // of a kept version this is the one that runs it
	at, err := systemPlace(runtime.GOOS, os.Getenv)
	answer(w, about{OS: runtime.GOOS, Package: service.PackagedBy(exe), System: err == nil && at.data == set.Data, Program: exe, Folder: set.Data})
}
