//go:build !linux

package main

func signalAtOnce() {}
