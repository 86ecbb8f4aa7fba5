// Package value holds the values of the simulated SQL Server: their types, how one becomes another, how they compare,
// and what collations do to strings.
//
// A value is nil (NULL), bool (bit), int64 (the integers), string (nvarchar, varchar), []byte (binary, varbinary,
// rowversion, uniqueidentifier) or time.Time (datetimeoffset, datetime2). It does not carry its type: expressions do.
// A Go string cannot hold half of a surrogate pair, so cutting one in two leaves U+FFFD where SQL Server leaves the
// half; lengths are the same.
package value
