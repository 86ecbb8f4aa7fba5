package sqlite

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes this test binary another process: it plays the role, and exits.
const roleVariable = "LEASEHOLD_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	useMemory()
	goleak.VerifyTestMain(m)
}

// useMemory keeps the files of the tests in memory where Linux has a place for that: there are thousands of commits in
// them, and they do not test the disk.
func useMemory() {
	const place = "/dev/shm"
	if dir, err := os.MkdirTemp(place, "leasehold"); err == nil {
		_ = os.Remove(dir)
		_ = os.Setenv("TMPDIR", place)
	}
}
