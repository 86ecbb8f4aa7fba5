package rows_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
)

const table = 1

// primary is a database that is in a term.
func primary(term uint64) *rows.Database {
	d := rows.New()
	d.KeepLog()
	d.Promote(term, 0)
	return d
}

// secondary is a database that has the log of another one.
func secondary(of *rows.Database) *rows.Database {
	d := rows.New()
	d.KeepLog()
	d.Demote()
	for _, record := range of.Log(0) {
		d.Redo(record)
	}
	return d
}

func commit(t *testing.T, d *rows.Database, key string) {
	t.Helper()
	tx := d.Begin()
	tx.Put(table, key, rows.Row{key, rows.RowVersionBytes(d.DrawRowVersion())})
	_, err := tx.Commit()
	require.NoError(t, err)
}

func TestTerms(t *testing.T) {
	t.Run("a demoted database takes no commit, nor later one of an earlier term", func(t *testing.T) {
		d := primary(1)
		early, late := d.Begin(), d.Begin()
		early.Put(table, "early", rows.Row{"early"})
		late.Put(table, "late", rows.Row{"late"})
		d.Demote()
		_, err := early.Commit()
		require.ErrorIs(t, err, rows.ErrDemoted)
		d.Promote(2, 0)
		_, err = late.Commit()
		require.ErrorIs(t, err, rows.ErrDemoted)
		early.Undo(0)
		late.Undo(0)
		commit(t, d, "late")
		assert.Len(t, d.Rows(table), 1)
		assert.EqualValues(t, 2, d.Log(0)[0].Term)
	})

	t.Run("the counter of row versions goes on behind the log, or at the next reservation", func(t *testing.T) {
		old := primary(1)
		commit(t, old, "one")
		kept, reserved := secondary(old), secondary(old)
		commit(t, old, "lost")
		kept.Promote(2, 0)
		commit(t, kept, "new")
		assert.Equal(t, old.LastRowVersion(), kept.LastRowVersion(), "drawn twice")
		reserved.Promote(2, 4000)
		assert.EqualValues(t, 4000, reserved.LastRowVersion())
	})

	t.Run("a fork is where two logs part", func(t *testing.T) {
		old := primary(1)
		assert.EqualValues(t, 0, old.Fork(rows.New()))
		commit(t, old, "one")
		commit(t, old, "two")
		behind := secondary(old)
		assert.EqualValues(t, 2, behind.Fork(old))
		commit(t, old, "three")
		assert.EqualValues(t, 2, behind.Fork(old))
		assert.EqualValues(t, 2, old.Fork(behind))
		behind.Promote(2, 0)
		commit(t, behind, "other three")
		commit(t, behind, "other four")
		assert.EqualValues(t, 2, behind.Fork(old))
		assert.EqualValues(t, 2, old.Fork(behind))
	})

	t.Run("a copy begins where the original was", func(t *testing.T) {
		d := primary(1)
		commit(t, d, "one")
		one, other := d.Copy(), d.Copy()
		assert.EqualValues(t, 1, one.Fork(other))
		assert.Equal(t, d.Rows(table), one.Rows(table))
	})
}
