package sqlite

import "golang.org/x/sys/unix"

// sinceBoot reads the one clock of darwin that runs during sleep and follows no time server.
func sinceBoot() int64 { return clockGettime(unix.CLOCK_MONOTONIC_RAW) }

// bootID is not kern.boottime, which moves when somebody sets the wall clock.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
