package mssql_test

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestScripts runs lists of batches, and compares what they answer with what is written beside them: on the simulated
// server, so that it does what is known of a real one, and on a real one, so that it is known.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts(t, func(t *testing.T, file, golden string) {
		got := transcript(t, database(t, server(t)), file)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), got)
	})
}

// scripts are the lists of batches, each with the file of its answers.
func scripts(t *testing.T, run func(t *testing.T, file, golden string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/scripts/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(file, ".sql")
		t.Run(filepath.Base(name), func(t *testing.T) { run(t, file, name+".want") })
	}
}

// transcript is a script with its answers. Batches are separated by lines with GO, as everywhere.
func transcript(t *testing.T, db *sql.DB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	var out strings.Builder
	for batch := range strings.SplitSeq(string(text), "\nGO\n") {
		batch = strings.TrimSpace(batch)
		fmt.Fprintf(&out, "%s\n", batch)
		// With a parameter the driver takes the way that the store takes too.
		rows, err := conn.QueryContext(t.Context(), batch, sql.Named("unused", 0))
		if err == nil {
			err = answers(&out, rows)
		}
		if engine, ok := errors.AsType[mssqldb.Error](err); ok {
			fmt.Fprintf(&out, "=> error %d\n", cmp.Or(engine.All[0].Number, engine.Number))
		} else {
			require.NoError(t, err, batch)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func answers(out *strings.Builder, rows *sql.Rows) error {
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			row := make([]any, len(names))
			into := make([]any, len(names))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			out.WriteString("=>")
			for _, v := range row {
				if b, ok := v.([]byte); ok {
					v = fmt.Sprintf("%x", b)
				}
				fmt.Fprintf(out, " %v", v)
			}
			out.WriteString("\n")
		}
	}
	return rows.Err()
}
