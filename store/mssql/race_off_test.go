//go:build !race

package mssql_test

const racing = false
