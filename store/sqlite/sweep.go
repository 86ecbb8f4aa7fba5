package sqlite

import (
	"context"
	"time"
)

const (
	sweepEvery = 30 * time.Second
	sweepMost  = 200
)

// sweep deletes what nobody will ask for again. It follows an acquire that has been decided and is part of its call, so
// it does not wait for anything, and its failure is nobody's failure.
func (s *Store) sweep(c *conn) {
	now := s.clock()
	if since := now.sub(s.swept); 0 <= since && since < sweepEvery {
		return
	}
	s.swept = now
	names, err := expiredNames(c, now)
	if err != nil || len(names) == 0 {
		return // without a write, and so without a wait for the disk
	}
	if err := run(c.begin); err != nil {
		return
	}
	_ = s.finish("sweep", c, func(t *tx) error {
		for _, name := range names {
			// It may have been acquired in between: the row must still be expired, now that nobody else can write.
			if err := run(t.removeExpired, t.now.bootID, t.now.boot, t.now.wall, name); err != nil {
				return err
			}
		}
		t.wrote = true
		return nil
	})
}

func expiredNames(c *conn, now reading) ([]string, error) {
	found, err := c.listExpired.QueryContext(context.Background(), now.bootID, now.boot, now.wall, sweepMost)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var names []string
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, found.Err()
}
