package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"sqlserver://app:pw@host:1433?database=d":                        "sqlserver://app:pw@host:1433?database=d",
		"sqlserver://host/instance?Database=d&App+Name=x":                "sqlserver://host/instance?app+name=x&database=d",
		"sqlserver://host?User+ID=app&PASSWORD=p%40w":                    "sqlserver://app:p%40w@host",
		"sqlserver://app@host?password=pw&database=d":                    "sqlserver://app:pw@host?database=d",
		"sqlserver://[::1]:1433?database=d":                              "sqlserver://[::1]:1433?database=d",
		"sqlserver://host?FedAuth=ActiveDirectoryMSI&user+id=a%40tenant": "sqlserver://a%40tenant@host?fedauth=ActiveDirectoryMSI",
	} {
		a, ok := parseAddress(target)
		require.True(t, ok, target)
		assert.Equal(t, want, a.String(), target)
		assert.Equal(t, strings.Contains(target, "FedAuth"), a.azure(), target)
	}
}

const secret = "S3cret!"

// malformed are names of stores with a password in them, of which the driver would take some, in another sense.
var malformed = []string{
	"sqlserver://u:S3cret!@[bad].host?database=d",
	"sqlserver://u:S3cret!@[bad/",
	"sqlserver://u:S3cret!%zz@host?database=d",
	"sqlserver://u:S3cret!@host:port?database=d",
	"sqlserver://u:S3cret!@?database=d",
	"sqlserver:u:S3cret!@host",
	"sqlserver:/u:S3cret!@host",
	"mssql://u:S3cret!@host",
	"sqlserver://u:1/S3cret!@127.0.0.1?database=d",
	"sqlserver://u:1#S3cret!@127.0.0.1?database=d",
	"sqlserver://u:1?S3cret!@127.0.0.1?database=d",
	"sqlserver://127.0.0.1:1?user id=u;password=S3cret!;database=d",
	"sqlserver://127.0.0.1:1?user id=u&password=S3cret!&Password=S3cret!",
	"sqlserver://u:S3cret!@127.0.0.1:1?password=S3cret!",
	"sqlserver://u@127.0.0.1:1?user id=u&password=S3cret!",
	"server=x;user id=u;password=S3cret!;pwd=S3cret!",
	"server=x:1;user id=u;password=S3cret!",
	"server=tcp:x,1433;user id=u;password=S3cret!",
	"sqlserver:server=x;user id=u;password=S3cret!",
	"odbc:server=x;uid=u;pwd={S3cret!",
	"S3cret!@host",
	"sqlserver://u@host?change+password=S3cret!",
	"sqlserver://:1433?password=S3cret!",
}

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"":                                "",
		"sqlite:/a/b:c@d":                 "sqlite:/a/b:c@d",
		"sqlserver://app@host?Database=d": "sqlserver://app@host?Database=d",
		"sqlserver://app:S3cret!@host?Database=d":             "sqlserver://app@host?database=d",
		"sqlserver://host?user+id=app&password=S3cret!":       "sqlserver://app@host",
		"sqlserver://host?SystemToken=S3cret!&pwd=S3cret!":    "sqlserver://host",
		"sqlserver://host?fedauth=x&ClientAssertion=S3cret!":  "sqlserver://host?fedauth=x",
		"sqlserver://:S3cret!@host?fedauth=x&userassertion=y": "sqlserver://@host?fedauth=x",
	} {
		got, ok := withoutPassword(target)
		assert.True(t, ok, target)
		assert.Equal(t, want, got, target)
		assert.Equal(t, strings.Contains(target, secret), hasPassword(target), target)
	}
	for _, target := range malformed {
		_, ok := withoutPassword(target)
		assert.False(t, ok, target)
		assert.True(t, hasPassword(target), target)
	}
	assert.False(t, hasPassword("plain"))
}

func TestMalformedAddress(t *testing.T) {
	t.Parallel()
	t.Run("CON-07 a name of a store that is misspelt is not shown, and needs no server to be refused", func(t *testing.T) {
		for _, target := range malformed {
			for _, test := range []struct{ env, args []string }{
				{[]string{storeVar + "=" + target}, []string{"run", "x", "-v", "--", "true"}},
				{[]string{storeVar + "=" + target}, []string{"list", "--json"}},
				{nil, []string{"show", "x", "--store", target}},
				{nil, []string{"break", "x", "--owner", "a/b", "--store", target}},
				{nil, []string{"schema", "--apply", "--store", target}},
				{nil, []string{"list", "--store", "sqlserver://127.0.0.1:1", "--replica", target}},
			} {
				code, out, errs := inProcess(t, test.env, test.args...)
				assert.Equal(t, codeMisconfigured, code, "%v: %s", test.args, errs)
				assert.NotEmpty(t, errs)
				assert.NotContains(t, out+errs, secret)
				assert.NotContains(t, out+errs, "cret", "not in parts either")
			}
		}
	})
}
