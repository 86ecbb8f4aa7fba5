package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

func TestClaim(t *testing.T) {
	good := store.Claim{Name: "job", Owner: "host:1/abc", TTL: time.Second}
	require.NoError(t, good.Validate())
	for what, change := range map[string]func(c *store.Claim){
		"empty name":                    func(c *store.Claim) { c.Name = "" },
		"NAM-01 trailing blank":         func(c *store.Claim) { c.Name = "job " },
		"NAM-01 leading no-break space": func(c *store.Claim) { c.Name = "\u00a0job" },
		"NAM-03 201 units":              func(c *store.Claim) { c.Name = strings.Repeat("a", 201) },
		"NAM-03 101 surrogate pairs":    func(c *store.Claim) { c.Name = strings.Repeat("🔒", 101) },
		"control character":             func(c *store.Claim) { c.Name = "a\u0000b" },
		"invalid UTF-8":                 func(c *store.Claim) { c.Name = "a\xff" },
		"no owner":                      func(c *store.Claim) { c.Owner = "" },
		"NAM-05 129 units of owner":     func(c *store.Claim) { c.Owner = strings.Repeat("o", 129) },
		"NAM-05 1,025 units of note":    func(c *store.Claim) { c.Metadata = strings.Repeat("m", 1025) },
		"NAM-05 half a pair too much":   func(c *store.Claim) { c.Metadata = strings.Repeat("🔒", 512) + "a" },
		"no TTL":                        func(c *store.Claim) { c.TTL = 0 },
		"negative TTL":                  func(c *store.Claim) { c.TTL = -time.Second },
		"TTL in parts of milliseconds":  func(c *store.Claim) { c.TTL = time.Second + 1 },
		"TTL beyond a day":              func(c *store.Claim) { c.TTL = 24*time.Hour + time.Millisecond },
	} {
		t.Run(what, func(t *testing.T) {
			c := good
			change(&c)
			require.ErrorIs(t, c.Validate(), store.ErrInvalid)
		})
	}
	t.Run("all problems together", func(t *testing.T) {
		err := store.Claim{Metadata: strings.Repeat("m", 2000)}.Validate()
		for _, word := range []string{"name", "owner", "TTL", "metadata", "2000"} {
			require.ErrorContains(t, err, word)
		}
		require.Less(t, len(err.Error()), 500, "however long the input")
	})
	t.Run("a Release needs neither TTL nor metadata", func(t *testing.T) {
		require.NoError(t, store.Claim{Name: "job", Owner: "a/b"}.ValidateKey())
		require.ErrorIs(t, store.Claim{Name: "job"}.ValidateKey(), store.ErrInvalid)
	})
	t.Run("NAM-04 owners", func(t *testing.T) {
		instance := strings.Repeat("i", 111)
		require.NoError(t, store.ValidateInstance(instance))
		require.ErrorIs(t, store.ValidateInstance(instance+"i"), store.ErrInvalid)
		require.ErrorIs(t, store.ValidateInstance(store.Broken), store.ErrInvalid, "its grants would look like broken ones")
		require.NoError(t, store.ValidateInstance(store.Broken+"2"))
		require.True(t, store.Disowned(store.NewOwner(store.Broken)))
		require.False(t, store.Disowned(store.NewOwner(store.Broken+"2")))
		owner := store.NewOwner(instance)
		require.NoError(t, store.ValidateOwner(owner))
		require.Len(t, owner, 128)
		require.Equal(t, strings.ToLower(owner), owner, "one letter case, for a collation that ignores it")
		require.NotEqual(t, owner, store.NewOwner(instance))
	})
}

// FuzzClaim: what is accepted survives the way to SQL Server and back, and fits its columns.
func FuzzClaim(f *testing.F) {
	for _, s := range []string{"job", "job ", "", "🔒", "\xff", "a\x00", strings.Repeat("x", 300), "\u200b", "ﬁ"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, name, owner, note string) {
		c := store.Claim{Name: name, Owner: owner, TTL: time.Second, Metadata: note}
		err := c.Validate()
		if err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.True(t, utf8.ValidString(err.Error()))
			return
		}
		for text, most := range map[string]int{name: 200, owner: 200, note: 1024} {
			units := utf16.Encode([]rune(text))
			require.LessOrEqual(t, len(units), most)
			require.Equal(t, text, string(utf16.Decode(units)))
		}
		require.LessOrEqual(t, len(utf16.Encode([]rune(owner))), 128)
		require.Equal(t, name, strings.TrimSpace(name))
		require.NoError(t, c.ValidateKey())
	})
}

func TestErrors(t *testing.T) {
	engine := errors.New("engine")
	for _, tc := range []struct {
		err   error
		class error
	}{
		{&store.HeldError{Lease: store.Lease{Name: "job", Owner: "a/b"}}, store.ErrHeld},
		{&store.UnavailableError{Op: "renew", Err: engine}, store.ErrUnavailable},
		{&store.UnavailableError{Op: "renew", Unclear: true, Err: engine}, store.ErrUnavailable},
		{&store.MisconfiguredError{Remedy: "create the table", Err: engine}, store.ErrMisconfigured},
		{store.Claim{}.Validate(), store.ErrInvalid},
	} {
		n := 0
		for _, class := range []error{store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound} {
			if errors.Is(tc.err, class) {
				n++
			}
		}
		require.Equal(t, 1, n, "exactly one class: %v", tc.err)
		require.ErrorIs(t, tc.err, tc.class)
		if unavailable, ok := errors.AsType[*store.UnavailableError](tc.err); ok {
			require.ErrorIs(t, tc.err, engine)
			require.Equal(t, unavailable.Unclear, errors.Is(tc.err, store.ErrUnclear))
		}
	}
}

type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

type special struct{ store.Store }

func (special) Special() {}

func TestAs(t *testing.T) {
	type specialist interface{ Special() }
	_, ok := store.As[specialist](wrapper{wrapper{special{}}})
	require.True(t, ok)
	_, ok = store.As[specialist](wrapper{wrapper{}})
	require.False(t, ok)
	_, ok = store.As[specialist](nil)
	require.False(t, ok)
}

func ExampleHeldError() {
	err := error(&store.HeldError{Lease: store.Lease{
		Name: "nightly", Owner: "web-1:42/k2a", Metadata: "report",
		Acquired: time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC), Left: 23 * time.Second,
	}})
	fmt.Println(err)
	fmt.Println(errors.Is(err, store.ErrHeld))
	// Output:
	// "nightly" is held by web-1:42/k2a since 2026-12-01T02:00:00Z, 23s left ("report")
	// true
}

func ExampleValidateName() {
	fmt.Println(store.ValidateName("invoice-batch"))
	fmt.Println(store.ValidateName("job "))
	// Output:
	// <nil>
	// invalid name "job ": it must not begin or end with white space
}

func ExampleNewOwner() {
	owner := store.NewOwner("web-1:42")
	fmt.Println(strings.HasPrefix(owner, "web-1:42/"), len(owner))
	// Output: true 25
}
