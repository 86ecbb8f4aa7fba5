package tds_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

func TestLogin(t *testing.T) {
	s, d := start(t, tds.Options{})
	db := open(t, s, "database=locks&app name=leasehold&workstation id=host7&ApplicationIntent=ReadOnly")
	require.NoError(t, db.PingContext(t.Context()))
	want := tds.Login{Conn: 1, User: "sa", Password: "p w:é@/", Database: "locks", App: "leasehold", Host: "host7",
		Server: "127.0.0.1", ReadOnly: true, PacketSize: 4096}
	assert.Equal(t, want, d.saw)
	want.Password = ""
	assert.Equal(t, []tds.Conn{{ID: 1, Login: want, Idle: true}}, s.Conns())
	assert.Equal(t, tds.Stats{Accepted: 1, Open: 1, Logins: 1, Requests: 1, Resets: 1}, s.Stats())
	require.NoError(t, db.Close())
	eventually(t, "the connection is gone", func() bool { return s.Stats().Open == 0 })
	assert.Equal(t, []string{"reset", "execute select 1;", "close"}, d.noted())
}

func TestLoginRefused(t *testing.T) {
	s, d := start(t, tds.Options{})
	db := open(t, s, "database=gone")

	t.Run("several errors", func(t *testing.T) {
		d.login = func(l tds.Login) error {
			return tds.Messages{
				{Number: 4060, State: 1, Class: 11, Text: "Cannot open database \"" + l.Database + "\"."},
				{Number: 18456, State: 1, Class: 14, Text: "Login failed for user '" + l.User + "'."},
			}
		}
		err := db.PingContext(t.Context())
		var e mssql.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, int32(18456), e.Number, "the last one")
		require.Len(t, e.All, 2)
		assert.Equal(t, int32(4060), e.All[0].Number)
	})
	t.Run("wrong password", func(t *testing.T) {
		d.login = func(l tds.Login) error {
			if l.Password != "right" {
				return errors.New("wrong password")
			}
			return nil
		}
		assert.Equal(t, int32(18456), number(t, db.PingContext(t.Context())))
	})
	assert.Zero(t, s.Stats().Logins)
	eventually(t, "refused connections are closed", func() bool { return s.Stats().Open == 0 })
}

func TestRouting(t *testing.T) {
	secondary, seen := start(t, tds.Options{})
	primary, d := start(t, tds.Options{})
	d.login = func(l tds.Login) error {
		if l.ReadOnly {
			return &tds.Redirect{Host: "localhost", Port: secondary.Addr().Port()}
		}
		return nil
	}
	require.NoError(t, open(t, primary, "database=x").PingContext(t.Context()))
	assert.Zero(t, secondary.Stats().Logins)
	require.NoError(t, open(t, primary, "database=x&ApplicationIntent=ReadOnly").PingContext(t.Context()))
	assert.Equal(t, int64(1), secondary.Stats().Logins)
	assert.True(t, seen.saw.ReadOnly)
	assert.Equal(t, "localhost", seen.saw.Server)
}

func TestEncryption(t *testing.T) {
	available, sawAvailable := start(t, tds.Options{})
	required, sawRequired := start(t, tds.Options{Encryption: tds.EncryptionRequired})
	missing, sawMissing := start(t, tds.Options{Encryption: tds.EncryptionMissing})
	authority := func(s *tds.Server) string {
		file := filepath.Join(t.TempDir(), "authority.pem")
		require.NoError(t, os.WriteFile(file, s.Authority(), 0o600))
		return "&certificate=" + url.QueryEscape(file)
	}
	tests := []struct {
		name       string
		server     *tds.Server
		database   *database
		parameters string
		encrypted  bool
		err        string
	}{
		{"verified", available, sawAvailable, "encrypt=true" + authority(available), true, ""},
		{"verified, big packets", available, sawAvailable, "encrypt=true&packet size=32767" + authority(available), true, ""},
		{"TLS 1.2", available, sawAvailable, "encrypt=true&tlsmin=1.2" + authority(available), true, ""},
		{"verified by another name", available, sawAvailable, "encrypt=true&hostnameincertificate=localhost" + authority(available), true, ""},
		{"wrong name", available, sawAvailable, "encrypt=true&hostnameincertificate=sql.example" + authority(available), false, "certificate is valid for localhost"},
		{"unknown authority", available, sawAvailable, "encrypt=true", false, "unknown authority"},
		{"somebody else's authority", available, sawAvailable, "encrypt=true" + authority(required), false, "unknown authority"},
		{"trusted blindly", available, sawAvailable, "encrypt=true&trustservercertificate=true", true, ""},
		{"strict", available, sawAvailable, "encrypt=strict" + authority(available), true, ""},
		{"login alone", available, sawAvailable, "encrypt=false&trustservercertificate=true", false, ""},
		{"disabled", available, sawAvailable, "encrypt=disable", false, ""},
		{"off, but required", required, sawRequired, "encrypt=false&trustservercertificate=true", true, ""},
		{"true, but missing", missing, sawMissing, "encrypt=true", false, "server does not support encryption"},
		{"off, and missing", missing, sawMissing, "encrypt=false", false, ""},
		{"strict, but missing", missing, sawMissing, "encrypt=strict", false, "TLS Handshake failed"},
	}
	text := strings.Repeat("x😼", 20000)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, test.server, test.parameters)
			var got string
			err := db.QueryRowContext(t.Context(), "echo --", text).Scan(&got)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, text, got)
			assert.Equal(t, test.encrypted, test.database.saw.Encrypted)
		})
	}
}

// TestGarbage: what is not TDS ends the connection, without a word and at once.
func TestGarbage(t *testing.T) {
	s, _ := start(t, tds.Options{})
	prelogin := "\x12\x01\x00\x14\x00\x00\x01\x00\x01\x00\x06\x00\x01\xff\x02\x00\x00\x00\x00\x00"
	for name, bytes := range map[string]string{
		"text":                       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a TLS record of nonsense":   "\x16\x03\x01\x00\x05hello",
		"zeros":                      strings.Repeat("\x00", 64),
		"packet shorter than itself": "\x12\x01\x00\x07\x00\x00\x01\x00",
		"PRELOGIN without options":   "\x12\x01\x00\x08\x00\x00\x01\x00",
		"PRELOGIN pointing outside":  "\x12\x01\x00\x0e\x00\x00\x01\x00\x01\xff\xff\x00\x01\xff",
		"batch before the login":     "\x01\x01\x00\x08\x00\x00\x01\x00",
		"batch instead of LOGIN7":    prelogin + "\x01\x01\x00\x08\x00\x00\x01\x00",
		"empty LOGIN7":               prelogin + "\x10\x01\x00\x08\x00\x00\x01\x00",
		"two kinds in one message":   "\x12\x00\x00\x08\x00\x00\x01\x00\x10\x01\x00\x08\x00\x00\x01\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", s.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			_, err = c.Write([]byte(bytes))
			require.NoError(t, err)
			answer := make([]byte, 4096)
			n := 0
			for err == nil {
				var more int
				more, err = c.Read(answer)
				n += more
			}
			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection was left open")
			if !strings.HasPrefix(bytes, prelogin) && bytes[0] != 0x16 {
				assert.Zero(t, n)
			}
		})
	}
}

// TestSilentClients: a server closes under clients that never said a word, and
// those that hang up are forgotten.
func TestSilentClients(t *testing.T) {
	s, _ := start(t, tds.Options{})
	first, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	second, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer second.Close()
	eventually(t, "both are there", func() bool { return s.Stats().Open == 2 })
	require.NoError(t, first.Close())
	eventually(t, "one is forgotten", func() bool { return s.Stats().Open == 1 })
	s.Close()
	assert.Zero(t, s.Stats().Open)
}
