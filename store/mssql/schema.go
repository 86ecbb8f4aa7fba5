package mssql

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/aaravsoft/leasehold/store"
)

// schemaSQL creates what is missing, and alters nothing. The application lock lets any number of sessions run it at once;
// it ends with the transaction.
const schemaSQL = `SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 10000;
BEGIN TRANSACTION;
DECLARE @locked INT;
EXEC @locked = sp_getapplock @Resource = N'leasehold schema', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 10000;
IF @locked < 0 THROW 50917, N'another session has been creating the table for 10 seconds', 1;
IF SCHEMA_ID({schema literal}) IS NULL EXEC ({create schema});
IF OBJECT_ID({table literal}) IS NULL
BEGIN
	CREATE TABLE {table} (
		LeaseName NVARCHAR(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
		OwnerInstanceId NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
		AcquiredAtUtc DATETIMEOFFSET(7) NOT NULL,
		RenewedAtUtc DATETIMEOFFSET(7) NOT NULL,
		ExpiresAtUtc DATETIMEOFFSET(7) NOT NULL,
		Metadata NVARCHAR(1024) NULL,
		[RowVersion] ROWVERSION NOT NULL,
		CONSTRAINT {key} PRIMARY KEY CLUSTERED (LeaseName)
	);
	CREATE NONCLUSTERED INDEX {index} ON {table} (ExpiresAtUtc);
END
COMMIT TRANSACTION;
`

// busyCreating is the number of the error that schemaSQL throws.
const busyCreating = 50917

// Schema returns the script that creates the table, and its schema if there is none. It may be run any number of times,
// and by several at once; it changes nothing that exists. Its errors are of class [store.ErrInvalid].
func Schema(cfg Config) (string, error) {
	t, err := cfg.table()
	if err != nil {
		return "", err
	}
	return t.script(), nil
}

func (t table) script() string {
	return strings.NewReplacer(
		"{schema literal}", literal(t.schema),
		"{create schema}", literal("CREATE SCHEMA "+quote(t.schema)),
		"{table literal}", literal(t.String()),
		"{table}", t.String(),
		"{key}", quote(derived("PK_", t.name, "")),
		"{index}", quote(derived("IX_", t.name, "_ExpiresAtUtc")),
	).Replace(schemaSQL)
}

// derived is a name made of a table's, cut so that it is not too long for one.
func derived(before, name, after string) string {
	const most = 128
	units := utf16.Encode([]rune(name))
	units = units[:min(len(units), most-len(before)-len(after))]
	return before + strings.TrimRight(string(utf16.Decode(units)), "\uFFFD") + after
}

// Grants returns the script that gives a principal (a user or a role of the database) the rights that a Store needs, once
// the table exists, and no others. Its errors are of class [store.ErrInvalid].
func Grants(cfg Config, principal string) (string, error) {
	t, err := cfg.table()
	if err = cmp.Or(err, checkIdentifier("principal", principal)); err != nil {
		return "", err
	}
	if principal == "" {
		return "", fmt.Errorf("%w name of a principal: it must not be empty", store.ErrInvalid)
	}
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.String() + " TO " + quote(principal) + ";\n", nil
}
