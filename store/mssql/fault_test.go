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

// TestConnectionErrors are those that no engine reports; numbers_test.go has the others.
func TestConnectionErrors(t *testing.T) {
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
