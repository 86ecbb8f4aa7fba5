package mssql

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFurtherColumns is about columns that the simulated server cannot have.
func TestFurtherColumns(t *testing.T) {
	for name, test := range map[string]struct {
		further column
		wrong   int
	}{
		"obligatory": {column{name: "N", typ: "int"}, 1},
		"IDENTITY":   {column{name: "N", typ: "int", numbered: true}, 0},
		"computed":   {column{name: "N", typ: "int", computed: true}, 0},
		"a default":  {column{name: "N", typ: "int", fallback: 7}, 0},
	} {
		t.Run("SQL-07 "+name, func(t *testing.T) {
			assert.Len(t, compare(append(slices.Clone(wanted), test.further)), test.wrong)
		})
	}
}
