package mssql

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/store"
)

// TestSpellingOfStatements is for databases whose collation tells upper from lower case: in those it does so in the names
// of variables, columns and table variables too.
func TestSpellingOfStatements(t *testing.T) {
	as := map[string]string{}
	for name, text := range allTexts(table{"lease", "Leases"}) {
		if strings.Contains(text, "FROM sys.") {
			continue // the catalog's names are in lower case, whatever ours are
		}
		for _, word := range strings.FieldsFunc(text, func(r rune) bool {
			return r != '@' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			if word == strings.ToUpper(word) { // a keyword, or a name of one letter
				continue
			}
			folded := strings.ToLower(word)
			if as[folded] == "" {
				as[folded] = word
			}
			assert.Equal(t, as[folded], word, "two spellings of one name: %s", name)
		}
	}
	assert.Equal(t, "LeaseName", as["leasename"], "or this test looks at nothing")
}

// TestCollationNames: a collation's name becomes a part of a statement, so it must be nothing but one.
func TestCollationNames(t *testing.T) {
	names := table{"lease", "Leases"}
	for _, fine := range []string{"SQL_Latin1_General_CP1_CI_AS", "Latin1_General_100_BIN2", "Turkish_100_CI_AS_KS_WS_SC_UTF8", "Japanese_XJIS_140_CS_AS"} {
		assert.NoError(t, checkCollation(names, fine))
	}
	for _, bad := range []string{"", "Latin1 General", "Latin1_General_BIN2 NOT NULL); DROP TABLE dbo.Canary;--", "Latin1-General", "[x]", "Größe", "a'b", "a\x00"} {
		err := checkCollation(names, bad)
		if assert.ErrorIs(t, err, store.ErrMisconfigured, "%q", bad) {
			assert.ErrorContains(t, err, "EnsureSchema")
		}
	}
}
