package mssql

import (
	"strings"
	"time"
)

// The columns of the table, in the order in which every answer has them (see row.go).
const columns = `LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc, Metadata`

// Fragments that several statements have. They read @owner, @ttl and @now.
//
// Expiries are judged by @now, set just before each statement that decides. When such a statement has to wait for the
// row, it decides as of before the wait, as SQL Server's own time functions would: an acquisition sees a row as live that
// has expired meanwhile, a renewal extends its own row, which nobody can have taken while the statement was about to
// lock it, by less than it could. The wait is limited to a twentieth of the lease.
const (
	// mine is the exact comparison of rule S4, whatever the collation of the column. Trailing blanks, which = ignores,
	// count by their length.
	mine = `OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2 AND DATALENGTH(OwnerInstanceId) = DATALENGTH(@owner)`

	// extended is rule S3: a statement that was delayed never shortens its own row, but the clock may have been stepped.
	extended = `CASE WHEN ExpiresAtUtc > DATEADD(millisecond, {ttl}, @now) AND ExpiresAtUtc <= DATEADD(millisecond, 2 * {ttl}, @now)
		THEN ExpiresAtUtc ELSE DATEADD(millisecond, {ttl}, @now) END`

	// longest is extended for a batch that waits for row after row, together perhaps longer than a lease: what looks like a
	// stepped clock then may be a renewal that came in between. A step is corrected by the next batch.
	longest = `CASE WHEN ExpiresAtUtc > DATEADD(millisecond, {ttl}, @now) THEN ExpiresAtUtc ELSE DATEADD(millisecond, {ttl}, @now) END`
)

// head begins every batch. With NOCOUNT a trigger's counts do not reach the client; with XACT_ABORT no error leaves a
// transaction behind; without IMPLICIT_TRANSACTIONS, which a pool's own settings may have turned on, what is answered is
// committed; the lock timeout makes the server give up before the client does, with an answer.
const head = `SET NOCOUNT ON; SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET LOCK_TIMEOUT {wait};
DECLARE @now DATETIMEOFFSET(7) = SYSUTCDATETIME();
`

// acquireSQL takes over or refreshes a row, or inserts one; re-stamps it; and reads it.
//
// The row version is the token, and a server may draw it before it has the row's lock: a grant that waited would get a
// smaller one than a grant which came and went meanwhile. So a second statement stamps the row again, when it is already
// committed as this grant's: nobody else can have a grant of it then. If it is not this grant's any more, nothing was
// granted.
//
// NOT EXISTS saves a refusal the error of a failed INSERT; it decides nothing.
const acquireSQL = head + `DECLARE @name NVARCHAR(200) = @p1, @owner NVARCHAR(128) = @p2, @ttl INT = @p3, @note NVARCHAR(1024), @mine INT;
IF DATALENGTH(@p4) > 0 SET @note = @p4; -- a note of blanks is one
UPDATE {table} SET OwnerInstanceId = @owner, AcquiredAtUtc = CASE WHEN ExpiresAtUtc > @now THEN AcquiredAtUtc ELSE @now END,
	RenewedAtUtc = @now, ExpiresAtUtc = {extended}, Metadata = @note
WHERE LeaseName = @name AND (ExpiresAtUtc <= @now OR {mine});
SET @mine = @@ROWCOUNT;
IF @mine = 0 AND NOT EXISTS (SELECT 1 FROM {table} WHERE LeaseName = @name)
BEGIN TRY
	SET @now = SYSUTCDATETIME();
	INSERT INTO {table} ({columns}) VALUES (@name, @owner, @now, @now, DATEADD(millisecond, @ttl, @now), @note);
	SET @mine = 1;
END TRY
BEGIN CATCH
	IF ERROR_NUMBER() NOT IN (2627, 2601) THROW;
END CATCH
SET @now = SYSUTCDATETIME();
IF @mine = 1
BEGIN
	UPDATE {table} SET Metadata = Metadata WHERE LeaseName = @name AND ExpiresAtUtc > @now AND {mine};
	SET @mine = @@ROWCOUNT;
END
SET @now = SYSUTCDATETIME();
SELECT CASE WHEN @mine = 1 AND {mine} THEN 1 ELSE 0 END, @now, {columns}, [RowVersion] FROM {table} WHERE LeaseName = @name;`

// renewSQL is a renewal that waits for its row.
const renewSQL = head + `DECLARE @name NVARCHAR(200) = @p1, @owner NVARCHAR(128) = @p2, @ttl INT = @p3, @done INT;
UPDATE {table} SET RenewedAtUtc = @now, ExpiresAtUtc = {extended} WHERE LeaseName = @name AND ExpiresAtUtc > @now AND {mine};
SET @done = @@ROWCOUNT;
SET @now = SYSUTCDATETIME();
SELECT @done, @now, {columns} FROM {table} WHERE LeaseName = @name;`

// releaseSQL deletes: an UPDATE would leave a row that late renewals match. Whether the row was still valid is judged by
// the time before the DELETE: a release that was sent in time is not told that it was late because it had to wait.
const releaseSQL = head + `DECLARE @name NVARCHAR(200) = @p1, @owner NVARCHAR(128) = @p2, @done INT;
{gone}
DELETE FROM {table} OUTPUT {deleted} INTO @gone ({columns}) WHERE LeaseName = @name AND {mine};
SET @done = @@ROWCOUNT;
IF @done = 1 SELECT 1, @now, {columns} FROM @gone
ELSE SELECT 0, @now, {columns} FROM {table} WHERE LeaseName = @name;`

// The batches take their claims as JSON: one parameter, and one plan, for any number of them. The names' column has the
// collation of the table's, because two columns of different collations cannot be compared.
//
// READPAST leaves out rows that somebody has locked, so that one of them does not cost the others their answer; what did
// not come back is asked again without it. Nothing rests on it: a server that ignores it waits.
const (
	claimsSQL = `DECLARE @claims TABLE (Ordinal INT NOT NULL PRIMARY KEY, Name NVARCHAR(200) COLLATE {collation} NOT NULL,
	Owner NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL, TTL INT NOT NULL);
INSERT INTO @claims (Ordinal, Name, Owner, TTL)
	SELECT Ordinal, Name, Owner, TTL FROM OPENJSON(@p1) WITH (Ordinal INT, Name NVARCHAR(200), Owner NVARCHAR(128), TTL INT);
SET @now = SYSUTCDATETIME();
`
	rowsOfClaims = `FROM {table} AS l {hint}JOIN @claims AS c ON c.Name = l.LeaseName
	AND c.Owner = l.OwnerInstanceId COLLATE Latin1_General_100_BIN2 AND DATALENGTH(c.Owner) = DATALENGTH(l.OwnerInstanceId)
`
	goneToClient = `SELECT 1, @now, {columns}, Ordinal FROM @gone ORDER BY Ordinal;`

	renewBatchSQL = head + `{gone}
` + claimsSQL + `UPDATE l SET RenewedAtUtc = @now, ExpiresAtUtc = {extended}
OUTPUT c.Ordinal, {inserted} INTO @gone (Ordinal, {columns})
` + rowsOfClaims + `WHERE l.ExpiresAtUtc > @now;
` + goneToClient

	releaseBatchSQL = head + `{gone}
` + claimsSQL + `DELETE l OUTPUT c.Ordinal, {deleted} INTO @gone (Ordinal, {columns})
` + rowsOfClaims + `;
` + goneToClient
)

const goneTable = `DECLARE @gone TABLE (Ordinal INT, LeaseName NVARCHAR(200), OwnerInstanceId NVARCHAR(128),
	AcquiredAtUtc DATETIMEOFFSET(7), RenewedAtUtc DATETIMEOFFSET(7), ExpiresAtUtc DATETIMEOFFSET(7), Metadata NVARCHAR(1024));`

const (
	getSQL = head + `SELECT 1, @now, {columns} FROM {table} WHERE LeaseName = @p1;`

	// listSQL reads a page. Names are compared unit by unit: the column's collation may call two of them equal.
	listSQL = head + `SELECT TOP (500) 1, @now, {columns} FROM {table}
WHERE LeaseName COLLATE Latin1_General_100_BIN2 > @p1 AND LEFT(LeaseName COLLATE Latin1_General_100_BIN2, @p2) = @p3
ORDER BY LeaseName COLLATE Latin1_General_100_BIN2;`

	breakSQL = head + `DECLARE @name NVARCHAR(200) = @p1, @owner NVARCHAR(128) = @p2, @nobody NVARCHAR(128) = @p3, @done INT;
UPDATE {table} SET OwnerInstanceId = @nobody WHERE LeaseName = @name AND ExpiresAtUtc > @now AND {mine};
SET @done = @@ROWCOUNT;
SELECT 1, @now, {columns} FROM {table} WHERE LeaseName = @name AND @done = 1;`

	// sweepSQL finds the names first and then deletes row by row: a DELETE over the index of expiries would lock in the
	// order that deadlocks with renewals, and each row must be judged again when it is deleted.
	sweepSQL = head + `DECLARE @name NVARCHAR(200), @swept INT = 0;
DECLARE @expired TABLE (Name NVARCHAR(200) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
INSERT INTO @expired (Name) SELECT TOP (@p1) LeaseName FROM {table} WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE ExpiresAtUtc <= @now;
WHILE EXISTS (SELECT 1 FROM @expired)
BEGIN
	SET @name = (SELECT TOP (1) Name FROM @expired);
	DELETE FROM @expired WHERE Name = @name;
	DELETE FROM {table} WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE LeaseName = @name AND ExpiresAtUtc <= @now;
	SET @swept = @swept + @@ROWCOUNT;
END
SELECT @swept;`

	collationSQL = `SET NOCOUNT ON; SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID(@p1) AND name = N'LeaseName';`
)

const readPast = "WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) "

// lockWaits are the lock timeouts. There are few, so that there are few plans.
var lockWaits = [...]struct {
	ttl  time.Duration // from this TTL on
	wait string        // milliseconds
}{{40 * time.Second, "2000"}, {10 * time.Second, "500"}, {3 * time.Second, "150"}, {time.Second, "50"}, {300 * time.Millisecond, "15"}, {0, "10"}}

// text is a statement for each lock timeout.
type text [len(lockWaits)]string

// within is the text for a lease of this TTL: it waits for a lock at most a twentieth of it, where an attempt may take
// nearly a third.
func (t *text) within(ttl time.Duration) string {
	for i, w := range lockWaits {
		if ttl >= w.ttl {
			return t[i]
		}
	}
	return t[len(t)-1]
}

// patience is how long an operator's call waits for a lock, as if for a long lease.
const patience = 40 * time.Second

// statements are the texts for one table.
type statements struct{ acquire, renew, release, get, list, disown, sweep text }

func newStatements(t table) *statements {
	return &statements{
		acquire: t.text(acquireSQL), renew: t.text(renewSQL), release: t.text(releaseSQL), get: t.text(getSQL),
		list: t.text(listSQL), disown: t.text(breakSQL), sweep: t.text(sweepSQL),
	}
}

// batches are the texts that depend on the collation of the table's names too.
type batches struct {
	renew, release       text // leave out locked rows
	renewAll, releaseAll text // wait for them
	look                 text
}

func newBatches(t table, collation string) *batches {
	of := func(sql, hint string) text {
		expiry := strings.NewReplacer("{ttl}", "c.TTL", "ExpiresAtUtc", "l.ExpiresAtUtc")
		return t.text(strings.NewReplacer("{collation}", collation, "{hint}", hint,
			"{extended}", expiry.Replace(extended), "{longest}", expiry.Replace(longest)).Replace(sql))
	}
	return &batches{
		renew: of(renewBatchSQL, readPast), renewAll: of(strings.ReplaceAll(renewBatchSQL, "{extended}", "{longest}"), ""),
		release: of(releaseBatchSQL, readPast), releaseAll: of(releaseBatchSQL, ""),
		look: of(lookSQL, ""),
	}
}

// text fills the fragments in. The table's name comes last: it may contain anything.
func (t table) text(sql string) (list text) {
	every := strings.Split(columns, ", ")
	sql = strings.NewReplacer("{extended}", strings.ReplaceAll(extended, "{ttl}", "@ttl"), "{mine}", mine, "{columns}", columns,
		"{gone}", goneTable, "{inserted}", "inserted."+strings.Join(every, ", inserted."),
		"{deleted}", "deleted."+strings.Join(every, ", deleted.")).Replace(sql)
	for i, w := range lockWaits {
		list[i] = strings.NewReplacer("{wait}", w.wait, "{table}", t.String()).Replace(sql)
	}
	return list
}
