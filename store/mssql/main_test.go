package mssql_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors, unless it is told how many: most of their time goes by
// in leases and outages, which cost nothing.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}
