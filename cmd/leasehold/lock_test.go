package main

import (
	"database/sql"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptLock keeps an SQLite file from everybody else until the script ends: lock FILE
func scriptLock(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	ts.Check(err)
	ts.Defer(func() { db.Close() })
}
