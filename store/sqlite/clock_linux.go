package sqlite

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func sinceBoot() int64 { return clockGettime(unix.CLOCK_BOOTTIME) }

// bootID names this boot and the time namespace: two containers of one machine can have boot clocks that differ by an
// offset, and must then not compare them. Kernels without such namespaces have no such file.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/time")
	return strings.TrimSpace(string(id)) + " " + namespace
}
