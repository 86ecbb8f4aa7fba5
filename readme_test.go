package leasehold_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// program is what the README's handler is put into: it serves one request, and says how that ended.
const program = `package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/mssql"
)

func settle(ctx context.Context, invoice string) error {
	fmt.Println("settling", invoice, ctx.Err())
	return nil
}

func serve(ctx context.Context, mux *http.ServeMux) error {
	README
	return nil
}

func main() {
	mux := http.NewServeMux()
	if err := serve(context.Background(), mux); err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("POST", "/settle/42", nil))
	fmt.Println(answer.Code)
}
`

// TestReadmeHandler builds the README's handler as it stands there, and runs it on a simulated server that insists on TLS.
func TestReadmeHandler(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```go\n")
	require.True(t, found)
	handler, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	require.Contains(t, handler, "mssql.Open")

	folder := t.TempDir()
	source, binary, authority := filepath.Join(folder, "main.go"), filepath.Join(folder, "handler.exe"), filepath.Join(folder, "ca.pem")
	require.NoError(t, os.WriteFile(source, []byte(strings.Replace(program, "README", handler, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput()
	require.NoError(t, err, "%s", out)

	sim := simtest.Run(t, mssqlsim.Options{Wire: tds.Options{Encryption: tds.EncryptionRequired}})
	require.NoError(t, os.WriteFile(authority, sim.Wire.Authority(), 0o600))
	dsn, err := url.Parse(sim.DSN("encrypt=true", "certificate="+authority))
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "LOCKS_DSN="+dsn.String())
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "settling 42 <nil>\n200\n", string(out))
	assert.Positive(t, sim.Wire.Stats().Logins)
}
