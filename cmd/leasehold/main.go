package main

import (
	"context"
	"os"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

func main() {
	procgroup.Main() // this process may have been started as the supervisor of another one
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
