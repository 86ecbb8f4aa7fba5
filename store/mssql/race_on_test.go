//go:build race

package mssql_test

// racing says that the race detector is on, with which everything takes ten times as long.
const racing = true
