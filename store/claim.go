package store

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Claim is what an owner asks for.
type Claim struct {
	Name     string        // see [ValidateName]
	Owner    string        // "<instance>/<nonce>", see [NewOwner]
	TTL      time.Duration // a whole number of milliseconds, 1 ms to 24 h
	Metadata string        // a note for people, at most 1,024 UTF-16 units; "" is none
}

// Limits, in UTF-16 units where a length is meant: that is what NVARCHAR counts.
const (
	maxName     = 200
	maxOwner    = 128
	maxMetadata = 1024

	nonceBytes  = 10 // 80 random bits
	nonceUnits  = 16 // … in base32
	maxInstance = maxOwner - 1 - nonceUnits

	minTTL = time.Millisecond
	maxTTL = 24 * time.Hour
)

// Validate checks everything that Acquire and Renew need. Its errors are of class [ErrInvalid] and name all problems
// together.
func (c Claim) Validate() error {
	return errors.Join(c.ValidateKey(), validateTTL(c.TTL), validateText("metadata", c.Metadata, 0, maxMetadata))
}

// ValidateKey checks name and owner: what Release needs.
func (c Claim) ValidateKey() error {
	return errors.Join(ValidateName(c.Name), ValidateOwner(c.Owner))
}

// ValidateName accepts valid UTF-8 of 1 to 200 UTF-16 units without control characters and without white space at
// either end. Its errors are of class [ErrInvalid].
func ValidateName(name string) error { return validateKey("name", name, maxName) }

// ValidateOwner accepts what [ValidateName] does, up to 128 UTF-16 units. Its errors are of class [ErrInvalid].
func ValidateOwner(owner string) error { return validateKey("owner", owner, maxOwner) }

// ValidateInstance checks the part of an owner that says who it is: it must leave room for the nonce of [NewOwner], and
// not be [Broken]. Its errors are of class [ErrInvalid].
func ValidateInstance(instance string) error {
	if Disowned(instance + "/") {
		return fmt.Errorf("%w instance %q: %q is what a Break leaves", ErrInvalid, clip(instance), Broken)
	}
	return validateKey("instance", instance, maxInstance)
}

// Broken is the instance in the owner that a Break leaves (see [Inspector]).
const Broken = "broken"

// Disowned reports whether an owner is what a Break has left.
func Disowned(owner string) bool { return strings.HasPrefix(owner, Broken+"/") }

// NewOwner returns "<instance>/<nonce>". The nonce has 80 random bits in one letter case, so no two owners are equal,
// whatever the instance and whatever the collation.
func NewOwner(instance string) string {
	var nonce [nonceBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the program instead
	var text [nonceUnits]byte
	nonceText.Encode(text[:], nonce[:])
	return instance + "/" + string(text[:])
}

var nonceText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func validateTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL || ttl%time.Millisecond != 0 {
		return fmt.Errorf("%w TTL %v: it must be a whole number of milliseconds from %v to %v", ErrInvalid, ttl, minTTL, maxTTL)
	}
	return nil
}

func validateKey(what, s string, maxUnits int) error {
	if err := validateText(what, s, 1, maxUnits); err != nil {
		return err
	}
	if strings.TrimSpace(s) != s {
		// SQL Server does not count trailing blanks when it compares, Go does: they must never disagree.
		return fmt.Errorf("%w %s %q: it must not begin or end with white space", ErrInvalid, what, s)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Errorf("%w %s %q: it must not contain control characters", ErrInvalid, what, s)
	}
	return nil
}

func validateText(what, s string, minUnits, maxUnits int) error {
	if !utf8.ValidString(s) {
		// The driver would replace each bad byte by U+FFFD, and two different names would become one.
		return fmt.Errorf("%w %s %q: it must be valid UTF-8", ErrInvalid, what, clip(s))
	}
	switch n := utf16Units(s); {
	case n < minUnits:
		return fmt.Errorf("%w %s: it must not be empty", ErrInvalid, what)
	case n > maxUnits:
		return fmt.Errorf("%w %s %q: it has %d UTF-16 units, at most %d fit", ErrInvalid, what, clip(s), n, maxUnits)
	}
	return nil
}

func utf16Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++ // a surrogate pair
		}
	}
	return n
}

// clip keeps an error message short, whatever was passed in.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
