package mssql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// lookSQL reads the leases of some claims. Whether the node can be written to is said by the same batch: a role that was
// asked for before, or after, may be another one.
const lookSQL = head + claimsSQL + `SELECT CASE WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS NVARCHAR(20)) = N'READ_ONLY' THEN 1 ELSE 0 END,
	c.Ordinal, l.ExpiresAtUtc
FROM @claims AS c LEFT JOIN {table} AS l ON l.LeaseName = c.Name
	AND l.OwnerInstanceId COLLATE Latin1_General_100_BIN2 = c.Owner AND DATALENGTH(l.OwnerInstanceId) = DATALENGTH(c.Owner);`

// replica is a node that must confirm.
type replica struct {
	name string // for people
	pool *pool
}

func newReplicas(cfg Config, t table) (list []*replica, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, r := range list {
			err = errors.Join(err, r.pool.close())
		}
	}()
	for i, dsn := range cfg.Replicas {
		host, p, err := open(dsn, replicaMax)
		if err != nil {
			return list, fmt.Errorf("replica %d: %w", i+1, err)
		}
		list = append(list, &replica{name: host, pool: p})
	}
	for i, db := range cfg.ReplicaDBs {
		if db == nil {
			return list, fmt.Errorf("%w database of a replica, number %d: it is nil", store.ErrInvalid, i+1)
		}
		list = append(list, &replica{name: fmt.Sprintf("database %d", i+1), pool: &pool{db: db}})
	}
	for _, r := range list {
		r.pool.table = t
	}
	return list, nil
}

// Confirms reports whether there are replicas to confirm.
func (s *Store) Confirms() bool { return len(s.replicas) > 0 }

// Confirm implements [store.Confirmer]. A lease is confirmed up to the earliest Expires under which any of the nodes of
// [Config] shows it with its owner; a node that does not show it, or does not answer, confirms nothing. At least one of
// the nodes must say that it is read-only, which a primary does not: else everything that was asked may be the node that
// has granted the lease, and nothing is confirmed.
//
// A node that can be written to is judged like the others. It may be the primary, which shows what it has granted; or
// another one that has become primary meanwhile, and then all depends on whether it has the lease.
//
// Row versions are not compared: after a failover that lost changes, another change can have the same.
func (s *Store) Confirm(ctx context.Context, leases []store.Lease) ([]time.Time, error) {
	confirmed := make([]time.Time, len(leases))
	if len(leases) == 0 || len(s.replicas) == 0 {
		return confirmed, nil
	}
	parameter := encode(len(leases), func(i int) store.Claim { return store.Claim{Name: leases[i].Name, Owner: leases[i].Owner} })
	looks := make([]look, len(s.replicas))
	var wait sync.WaitGroup
	for i, r := range s.replicas {
		wait.Go(func() { looks[i] = r.look(ctx, parameter, len(leases)) })
	}
	wait.Wait()
	readOnly := false
	for i, l := range looks {
		if l.err != nil {
			return confirmed, fmt.Errorf("replica %s: %w", s.replicas[i].name, l.err)
		}
		readOnly = readOnly || l.readOnly
	}
	if !readOnly {
		return confirmed, &store.UnavailableError{Op: "confirm", Err: errNoReplica}
	}
	for i := range confirmed {
		confirmed[i] = looks[0].expires[i]
		for _, l := range looks[1:] {
			if l.expires[i].Before(confirmed[i]) {
				confirmed[i] = l.expires[i]
			}
		}
	}
	return confirmed, nil
}

var errNoReplica = errors.New("none of the replicas says that it is read-only: all of them may be the primary")

// look is what a replica shows.
type look struct {
	readOnly bool
	expires  []time.Time // zero: it does not show the lease
	err      error
}

func (r *replica) look(ctx context.Context, parameter any, n int) look {
	l := look{expires: make([]time.Time, n)}
	texts, err := r.pool.texts(ctx)
	if err != nil {
		l.err = err
		return l
	}
	l.err = r.pool.query(ctx, call{op: "confirm", sql: texts.look.within(3 * time.Second), args: []any{parameter}},
		func() { clear(l.expires) },
		func(rows *sql.Rows) error {
			var i int
			var expires sql.NullTime
			if err := rows.Scan(&l.readOnly, &i, &expires); err != nil {
				return err
			}
			if i < 0 || i >= n {
				return fmt.Errorf("an answer about lease %d of %d", i, n)
			}
			l.expires[i] = expires.Time.UTC()
			return nil
		})
	return l
}
