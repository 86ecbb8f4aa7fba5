package mssql

import (
	"context"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// engineError is an error as the driver reports it: the number is that of the last one.
func engineError(numbers ...int32) error {
	var e mssqldb.Error
	for _, n := range numbers {
		e.All = append(e.All, mssqldb.Error{Number: n})
		e.Number = n
	}
	return fmt.Errorf("mssql: %w", e)
}

var classes = []error{store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound}

// classOf is the only class of an error.
func classOf(t *testing.T, err error) error {
	t.Helper()
	var is []error
	for _, class := range classes {
		if errors.Is(err, class) {
			is = append(is, class)
		}
	}
	require.Len(t, is, 1, "%v", err)
	return is[0]
}

func TestClassify(t *testing.T) {
	names := table{"lease", "Leases"}
	for name, test := range map[string]struct {
		numbers    []int32
		class      error
		contention bool
		remedy     string
	}{
		"a victim of a deadlock":                {numbers: []int32{1205}, class: store.ErrUnavailable, contention: true},
		"lock timeout":                          {numbers: []int32{1222}, class: store.ErrUnavailable, contention: true},
		"lock timeout of Babelfish":             {numbers: []int32{33557097}, class: store.ErrUnavailable, contention: true},
		"snapshot conflict":                     {numbers: []int32{3960}, class: store.ErrUnavailable, contention: true},
		"duplicate key":                         {numbers: []int32{2627}, class: store.ErrUnavailable, contention: true},
		"somebody else creates the table":       {numbers: []int32{50917}, class: store.ErrUnavailable, contention: true},
		"the database is moving":                {numbers: []int32{40613}, class: store.ErrUnavailable},
		"the database is away, so no login":     {numbers: []int32{4060, 18456}, class: store.ErrUnavailable},
		"in no role, so no login":               {numbers: []int32{983, 18456}, class: store.ErrUnavailable},
		"read-only":                             {numbers: []int32{3906}, class: store.ErrUnavailable},
		"throttled":                             {numbers: []int32{10928}, class: store.ErrUnavailable},
		"out of memory":                         {numbers: []int32{701}, class: store.ErrUnavailable},
		"the log is full":                       {numbers: []int32{9002}, class: store.ErrUnavailable},
		"killed":                                {numbers: []int32{596}, class: store.ErrUnavailable},
		"no reason":                             {numbers: []int32{0}, class: store.ErrUnavailable},
		"a number that nobody has listed":       {numbers: []int32{4711}, class: store.ErrUnavailable},
		"no table":                              {numbers: []int32{208}, class: store.ErrMisconfigured, remedy: "EnsureSchema"},
		"no right to SELECT":                    {numbers: []int32{229}, class: store.ErrMisconfigured, remedy: "Grants"},
		"no right to CREATE TABLE":              {numbers: []int32{262}, class: store.ErrMisconfigured, remedy: "CREATE TABLE"},
		"a login that is refused":               {numbers: []int32{18456}, class: store.ErrMisconfigured, remedy: "password"},
		"a login that is locked":                {numbers: []int32{18486}, class: store.ErrMisconfigured, remedy: "locked"},
		"no user in the database":               {numbers: []int32{916}, class: store.ErrMisconfigured, remedy: "user"},
		"a column is missing":                   {numbers: []int32{207}, class: store.ErrMisconfigured, remedy: "EnsureSchema"},
		"a column is too short":                 {numbers: []int32{2628}, class: store.ErrMisconfigured, remedy: "EnsureSchema"},
		"a constraint":                          {numbers: []int32{547}, class: store.ErrMisconfigured, remedy: "constraints"},
		"a trigger's own error":                 {numbers: []int32{50001}, class: store.ErrMisconfigured, remedy: "triggers"},
		"the table exists, as the last of two":  {numbers: []int32{2714, 1750}, class: store.ErrMisconfigured, remedy: "Schema"},
		"a deadlock before something else":      {numbers: []int32{1205, 3980}, class: store.ErrUnavailable, contention: true},
		"a definite error hidden by a late one": {numbers: []int32{208, 4711}, class: store.ErrMisconfigured, remedy: "EnsureSchema"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sent := range []bool{false, true} {
				err := classify(t.Context(), "acquire", sent, names, engineError(test.numbers...))
				assert.Equal(t, test.class, classOf(t, err))
				assert.Equal(t, sent && errors.Is(test.class, store.ErrUnavailable), errors.Is(err, store.ErrUnclear))
				var marked interface{ Contention() bool }
				assert.Equal(t, test.contention, errors.As(err, &marked) && marked.Contention())
				assert.ErrorContains(t, err, test.remedy)
				engine, ok := errors.AsType[mssqldb.Error](err)
				require.True(t, ok, "the engine's error stays reachable")
				assert.Equal(t, test.numbers[len(test.numbers)-1], engine.Number)
			}
		})
	}
}

func TestClassifyConnections(t *testing.T) {
	names := table{"lease", "Leases"}
	lost := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	for name, err := range map[string]error{
		"network":           lost,
		"end of file":       io.EOF,
		"bad connection":    driver.ErrBadConn,
		"stream":            mssqldb.StreamError{InnerError: io.EOF},
		"severe error":      mssqldb.ServerError{},
		"no rows came":      errNoAnswer,
		"TLS was cut":       &brokenOff{lost},
		"anything":          errors.New("what"),
		"a name of no host": &net.DNSError{Err: "no such host", IsNotFound: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sent := range []bool{false, true} {
				got := classify(t.Context(), "renew", sent, names, err)
				assert.Equal(t, store.ErrUnavailable, classOf(t, got))
				assert.Equal(t, sent, errors.Is(got, store.ErrUnclear))
				assert.ErrorContains(t, got, err.Error())
				assert.NotErrorIs(t, got, context.Canceled)
			}
		})
	}
	t.Run("a certificate", func(t *testing.T) {
		got := classify(t.Context(), "renew", false, names, &brokenOff{x509.UnknownAuthorityError{}})
		assert.Equal(t, store.ErrMisconfigured, classOf(t, got))
		assert.ErrorContains(t, got, "certificate")
	})
	t.Run("a context that has ended comes first", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range []error{lost, engineError(208), mssqldb.StreamError{InnerError: io.EOF}, ctx.Err()} {
			got := classify(ctx, "acquire", true, names, err)
			assert.Equal(t, store.ErrUnavailable, classOf(t, got))
			assert.ErrorIs(t, got, context.Canceled)
			assert.ErrorIs(t, got, store.ErrUnclear)
		}
	})
}
