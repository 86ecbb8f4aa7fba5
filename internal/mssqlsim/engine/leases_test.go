package engine_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
)

// What follows is shaped like the statements of store/mssql, and grew before them: the simulator must run this.

const acquireSQL = `SET NOCOUNT ON; SET XACT_ABORT OFF; SET LOCK_TIMEOUT 500;
DECLARE @name nvarchar(200) = @p1, @owner nvarchar(128) = @p2, @ttl int = @p3, @note nvarchar(1024) = NULLIF(@p4, N''),
	@rows int, @granted bit = 0;
UPDATE [lease].[Leases] SET OwnerInstanceId = @owner,
	AcquiredAtUtc = CASE WHEN OwnerInstanceId = @owner AND ExpiresAtUtc > SYSDATETIMEOFFSET() THEN AcquiredAtUtc ELSE SYSDATETIMEOFFSET() END,
	RenewedAtUtc = SYSDATETIMEOFFSET(),
	ExpiresAtUtc = DATEADD(millisecond, @ttl, SYSDATETIMEOFFSET()),
	Metadata = @note
WHERE LeaseName = @name AND (OwnerInstanceId = @owner OR ExpiresAtUtc <= SYSDATETIMEOFFSET());
SET @rows = @@ROWCOUNT;
IF @rows = 0
BEGIN TRY
	INSERT INTO [lease].[Leases] (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc, Metadata)
	VALUES (@name, @owner, SYSDATETIMEOFFSET(), SYSDATETIMEOFFSET(), DATEADD(millisecond, @ttl, SYSDATETIMEOFFSET()), @note);
	SET @rows = 1;
END TRY
BEGIN CATCH
	IF ERROR_NUMBER() NOT IN (2627, 2601) THROW;
END CATCH
IF @rows = 1
BEGIN
	UPDATE [lease].[Leases] SET Metadata = Metadata
	WHERE LeaseName = @name AND OwnerInstanceId = @owner AND ExpiresAtUtc > SYSDATETIMEOFFSET();
	IF @@ROWCOUNT = 1 SET @granted = 1;
END
SELECT CASE WHEN @granted = 1 AND OwnerInstanceId = @owner THEN 1 ELSE 0 END,
	LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc, Metadata, [RowVersion],
	CASE WHEN ExpiresAtUtc <= SYSDATETIMEOFFSET() THEN 0
		WHEN DATEDIFF(day, SYSDATETIMEOFFSET(), ExpiresAtUtc) > 7 THEN 604800000
		ELSE DATEDIFF(millisecond, SYSDATETIMEOFFSET(), ExpiresAtUtc) END
FROM [lease].[Leases] WHERE LeaseName = @name;`

const renewSQL = `SET NOCOUNT ON; SET LOCK_TIMEOUT 500;
DECLARE @ttl int = @p2;
DECLARE @claims TABLE (Ord int NOT NULL PRIMARY KEY, Name nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL, Owner nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @done TABLE (Ord int NOT NULL, Expires datetimeoffset(7) NOT NULL);
INSERT INTO @claims (Ord, Name, Owner)
SELECT Ord, Name, Owner FROM OPENJSON(@p1) WITH (Ord int, Name nvarchar(200), Owner nvarchar(128));
UPDATE l SET RenewedAtUtc = SYSDATETIMEOFFSET(),
	ExpiresAtUtc = CASE WHEN l.ExpiresAtUtc > DATEADD(millisecond, @ttl, SYSDATETIMEOFFSET()) AND l.ExpiresAtUtc <= DATEADD(millisecond, 2 * @ttl, SYSDATETIMEOFFSET())
		THEN l.ExpiresAtUtc ELSE DATEADD(millisecond, @ttl, SYSDATETIMEOFFSET()) END
OUTPUT c.Ord, inserted.ExpiresAtUtc INTO @done (Ord, Expires)
FROM [lease].[Leases] AS l WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
JOIN @claims AS c ON c.Name = l.LeaseName AND c.Owner = l.OwnerInstanceId
WHERE l.ExpiresAtUtc > SYSDATETIMEOFFSET();
SELECT c.Ord, d.Expires FROM @claims AS c LEFT JOIN @done AS d ON d.Ord = c.Ord ORDER BY c.Ord;`

const releaseSQL = `SET NOCOUNT ON; SET LOCK_TIMEOUT 500;
DECLARE @claims TABLE (Ord int NOT NULL PRIMARY KEY, Name nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL, Owner nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @gone TABLE (Name nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY, Expires datetimeoffset(7) NOT NULL);
DECLARE @now datetimeoffset(7);
INSERT INTO @claims (Ord, Name, Owner)
SELECT Ord, Name, Owner FROM OPENJSON(@p1) WITH (Ord int, Name nvarchar(200), Owner nvarchar(128));
SET @now = SYSDATETIMEOFFSET();
DELETE l OUTPUT deleted.LeaseName, deleted.ExpiresAtUtc INTO @gone (Name, Expires)
FROM [lease].[Leases] AS l JOIN @claims AS c ON c.Name = l.LeaseName AND c.Owner = l.OwnerInstanceId;
SELECT c.Ord, CASE WHEN g.Name IS NULL THEN 0 WHEN g.Expires > @now THEN 1 ELSE 2 END, l.OwnerInstanceId
FROM @claims AS c LEFT JOIN @gone AS g ON g.Name = c.Name LEFT JOIN [lease].[Leases] AS l ON l.LeaseName = c.Name
ORDER BY c.Ord;`

const sweepSQL = `SET NOCOUNT ON; SET LOCK_TIMEOUT 100;
DECLARE @old TABLE (Name nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);
DECLARE @dummy int = @p1;
INSERT INTO @old (Name) SELECT TOP (200) LeaseName FROM [lease].[Leases] WITH (READPAST, READCOMMITTEDLOCK)
WHERE ExpiresAtUtc <= SYSDATETIMEOFFSET() ORDER BY LeaseName;
DELETE l FROM [lease].[Leases] AS l WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) JOIN @old AS o ON o.Name = l.LeaseName
WHERE l.ExpiresAtUtc <= SYSDATETIMEOFFSET();
SELECT @@ROWCOUNT;`

type claim struct {
	Ord         int
	Name, Owner string
}

func claims(pairs ...string) string {
	var list []claim
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, claim{i / 2, pairs[i], pairs[i+1]})
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// grant is what acquireSQL answers.
type grant struct {
	granted bool
	owner   string
	expires time.Time
	version uint64
	left    time.Duration
}

func acquire(c *client, name, owner string, ttl time.Duration) grant {
	c.t.Helper()
	r := c.exec(acquireSQL, name, owner, int(ttl.Milliseconds()), "")
	require.Len(c.t, r.rows, 1)
	row := r.rows[0]
	return grant{row[0] == int64(1), row[2].(string), row[5].(time.Time), versionOf(row[7]), time.Duration(row[8].(int64) * int64(time.Millisecond))}
}

func versionOf(v any) (n uint64) {
	for _, b := range v.([]byte) {
		n = n<<8 | uint64(b)
	}
	return n
}

func TestLeaseStatements(t *testing.T) {
	for _, collation := range []string{"Latin1_General_100_BIN2", "SQL_Latin1_General_CP1_CI_AS"} {
		for _, rcsi := range []bool{false, true} {
			name := collation
			if rcsi {
				name += " with RCSI"
			}
			t.Run(name, func(t *testing.T) {
				n := engine.New(engine.Config{})
				n.SetRCSI(rcsi)
				c := login(t, n)
				if collation == "Latin1_General_100_BIN2" {
					createLeases(c)
					leaseLife(t, n, c)
				} else {
					// A table of the .NET package: the statements' join of a case-insensitive column with a binary
					// one needs a COLLATE that they do not have.
					createLeases(c, collation)
					assert.True(t, acquire(c, "job", "a", time.Minute).granted)
					assert.False(t, acquire(c, "JOB ", "b", time.Minute).granted)
					assert.EqualValues(t, 468, c.fails(468, renewSQL, claims("job", "a"), 60000).Number)
				}
				held, waiting := n.Locks()
				assert.Zero(t, held+waiting)
			})
		}
	}
}

func leaseLife(t *testing.T, n *engine.Node, c *client) {
	first := acquire(c, "job", "a", time.Minute)
	require.True(t, first.granted)
	assert.Equal(t, time.Minute, first.left.Round(time.Second))

	refused := acquire(c, "job", "b", time.Minute)
	assert.False(t, refused.granted)
	assert.Equal(t, "a", refused.owner)
	assert.True(t, acquire(c, "Job", "b", time.Minute).granted, "a binary collation tells case apart")
	assert.False(t, acquire(c, "job  ", "b", time.Minute).granted, "blanks at the end never count")

	n.Step(30 * time.Second)
	r := c.exec(renewSQL, claims("job", "b", "job", "a", "nobody", "a", "Job", "b"), 60000)
	require.Len(t, r.rows, 4)
	assert.Nil(t, r.rows[0][1], "not the owner")
	assert.True(t, r.rows[1][1].(time.Time).After(first.expires))
	assert.Nil(t, r.rows[2][1], "no row")
	assert.NotNil(t, r.rows[3][1])

	n.Step(time.Minute)
	r = c.exec(renewSQL, claims("job", "a"), 60000)
	assert.Nil(t, r.rows[0][1], "expired at this very moment: a renewal does not revive")
	second := acquire(c, "job", "b", time.Minute)
	require.True(t, second.granted)
	assert.Greater(t, second.version, first.version)

	r = c.exec(releaseSQL, claims("job", "a", "job", "b", "Job", "b", "nobody", "x"))
	require.Len(t, r.rows, 4)
	assert.Equal(t, []any{int64(0), int64(1), nil}, r.rows[0], "by name: the row of the other owner has just gone")
	assert.Equal(t, int64(1), r.rows[1][1])
	assert.Equal(t, int64(2), r.rows[2][1], "released when it had expired")
	assert.Equal(t, int64(0), r.rows[3][1])

	for _, name := range []string{"x", "y", "z"} {
		require.True(t, acquire(c, name, "a", time.Second).granted)
	}
	require.True(t, acquire(c, "w", "a", time.Hour).granted)
	n.Step(time.Second)
	assert.Equal(t, int64(3), c.exec(sweepSQL, 0).rows[0][0])
	assert.Equal(t, int64(1), c.value("SELECT COUNT(*) FROM lease.Leases"))
}

// Two acquisitions of a free name at once, in all orders that matter: one is granted, one is refused.
func TestAcquireRace(t *testing.T) {
	for _, point := range []engine.Point{engine.BeforeStatement, engine.RowVersionDrawn, engine.RowLocked, engine.BeforeCommit, engine.AfterCommit} {
		for _, expired := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := engine.New(engine.Config{})
					c, slow, fast := login(t, n), login(t, n), login(t, n)
					createLeases(c)
					if expired {
						acquire(c, "job", "old", time.Second)
						n.Step(time.Second)
					}
					gate := n.Gate(point, engine.Match{Session: slow.Session})
					defer gate.Open()
					answer := make(chan grant, 1)
					go func() { answer <- acquire(slow, "job", "slow", time.Minute) }()
					synctest.Wait()
					// Let it through a few points, so that each of its statements is held once in some run of the loop.
					other := make(chan grant, 1)
					go func() { other <- acquire(fast, "job", "fast", time.Minute) }()
					synctest.Wait()
					gate.Open()
					a, b := <-answer, <-other
					assert.NotEqual(t, a.granted, b.granted, "one of the two: %v, %v", a, b)
					winner := map[bool]string{true: "slow", false: "fast"}[a.granted]
					assert.Equal(t, winner, a.owner)
					assert.Equal(t, winner, b.owner)
				})
			})
		}
	}
}

// The race of DESIGN section 4: a holder's renewal draws its row version, sleeps, and stores it after another grant;
// that grant's token must still be greater than the one before.
func TestTokenRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := engine.New(engine.Config{})
		c, slow := login(t, n), login(t, n)
		createLeases(c)
		// An acquisition draws first …
		gate := n.Gate(engine.RowVersionDrawn, engine.Match{Session: slow.Session, Contains: "INSERT INTO"})
		answer := make(chan grant, 1)
		go func() { answer <- acquire(slow, "job", "slow", time.Minute) }()
		<-gate.Arrived()
		// … and while it has its number but not the row, others come and go.
		before := acquire(c, "job", "a", time.Minute)
		require.True(t, before.granted)
		c.exec(releaseSQL, claims("job", "a"))
		gate.Open()
		after := <-answer
		require.True(t, after.granted)
		assert.Greater(t, after.version, before.version, "the re-stamp draws a new one")
	})
}

// Without the re-stamp the token goes back: the simulator has the race, or the test above proves nothing.
func TestTokenRaceIsReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := engine.New(engine.Config{})
		c, slow := login(t, n), login(t, n)
		createLeases(c)
		insert := "INSERT INTO lease.Leases (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc) VALUES (@p1, N'o', SYSDATETIMEOFFSET(), SYSDATETIMEOFFSET(), SYSDATETIMEOFFSET())"
		version := "SELECT [RowVersion] FROM lease.Leases WHERE LeaseName = @p1"
		gate := n.Gate(engine.RowVersionDrawn, engine.Match{Session: slow.Session})
		done := make(chan struct{})
		go func() { defer close(done); slow.exec(insert, "job") }()
		<-gate.Arrived()
		c.exec(insert, "job")
		before := versionOf(c.value(version, "job"))
		c.exec("DELETE FROM lease.Leases WHERE LeaseName = @p1", "job")
		gate.Open()
		<-done
		assert.Less(t, versionOf(c.value(version, "job")), before)
	})
}
