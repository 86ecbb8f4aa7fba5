package mssql

import "database/sql"

// OpenPool is sql.Open with the connections of Open.
func OpenPool(dsn string) (*sql.DB, error) {
	_, p, err := open(dsn, 0)
	if err != nil {
		return nil, err
	}
	p.db.SetConnMaxIdleTime(0)
	return p.db, nil
}
