package mssql

import (
	"errors"
	"fmt"
	"testing"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// kind is what an error means for a caller. The lists of this file are written from the documentation of the engine, not
// from numbers.go: a number that is lost there, or gets into a second list, is found here.
type kind struct {
	class      error
	contention bool
	remedy     string // a part of it
}

var (
	outage    = kind{class: store.ErrUnavailable}
	inTheWay  = kind{class: store.ErrUnavailable, contention: true}
	tableGone = kind{class: store.ErrMisconfigured, remedy: "create the table with EnsureSchema"}
	noRight   = kind{class: store.ErrMisconfigured, remedy: "grant them with the script of Grants"}
	noLogin   = kind{class: store.ErrMisconfigured, remedy: "check user, password"}
	wrongBase = kind{class: store.ErrMisconfigured, remedy: "must not use the database"}
	full      = kind{class: store.ErrMisconfigured, remedy: "raise its quota"}
	otherForm = kind{class: store.ErrMisconfigured, remedy: "EnsureSchema lists the differences"}
)

func kinds() map[string]struct {
	kind
	numbers []int32
} {
	type list = struct {
		kind
		numbers []int32
	}
	return map[string]list{
		"the database is away or moving": {outage, []int32{4060, 40613, 40197, 40143, 40540, 40166, 40020, 42108, 42109, 49802, 49977, 49983,
			615, 913, 921, 922, 923, 924, 926, 927, 941, 942, 945, 952, 954, 955, 956}},
		"throttled":                            {outage, []int32{40501, 10928, 10929, 10930, 10936, 40642, 40648, 40675, 40903, 49918, 49919, 49920, 40549, 40550, 40551, 40552, 40553}},
		"a replica that does not serve":        {outage, []int32{976, 978, 979, 982, 983, 988, 3906, 3908, 4221, 3947, 3948, 3949, 3957, 3953}},
		"the server starts or stops":           {outage, []int32{17142, 17197, 18401, 6005, 17187, 17188}},
		"resources":                            {outage, []int32{9001, 9002, 701, 802, 8645, 8651, 8628, 1204, 823, 824}},
		"the session was ended":                {outage, []int32{596, 4014, 0}},
		"numbers that nobody has listed":       {outage, []int32{1, 20, 4711, 49999}},
		"somebody was in the way":              {inTheWay, []int32{1205, 1222, 3960, 3966, 601, 617, 669, 3635, 2627, 2601, 3980, 33557097}},
		"another one creates the table":        {inTheWay, []int32{50917}},
		"no table":                             {tableGone, []int32{208}},
		"no right":                             {noRight, []int32{229, 230, 262, 297, 300, 371, 2760}},
		"a login refused":                      {noLogin, []int32{18456, 18452, 18470, 18486, 18487, 18488}},
		"a database that the login cannot use": {wrongBase, []int32{916, 4064, 40615}},
		"the quota is used up":                 {full, []int32{40544}},
		"columns, types and constraints":       {otherForm, []int32{207, 213, 241, 245, 257, 334, 468, 515, 547, 8152, 2628, 8114, 8115, 206, 1785, 4140, 650}},
		"the statement":                        {otherForm, []int32{102, 105, 137, 156, 195, 201, 319, 2812, 8144, 8145, 8178, 8003, 15151}},
		"definitions":                          {otherForm, []int32{1750, 1779, 1801, 1913, 2714, 2759}},
		"somebody's own trigger":               {otherForm, []int32{50000, 50001, 50916, 50918, 60000, 2147483647}},
	}
}

// check compares what an error is with what it should be.
func (k kind) check(t *testing.T, sent bool, all ...int32) {
	t.Helper()
	reason := engineError(all...)
	err := classify(t.Context(), "acquire", sent, table{"lease", "Leases"}, reason)
	what := fmt.Sprintf("%v, sent: %v", all, sent)
	assert.Equal(t, k.class, classOf(t, err), what)
	assert.Equal(t, sent && errors.Is(k.class, store.ErrUnavailable), errors.Is(err, store.ErrUnclear), what)
	var marked interface{ Contention() bool }
	assert.Equal(t, k.contention, errors.As(err, &marked) && marked.Contention(), what)
	assert.ErrorContains(t, err, k.remedy, what)
	engine, ok := errors.AsType[mssqldb.Error](err)
	require.True(t, ok, "the engine's error stays reachable: %s", what)
	assert.Equal(t, all[len(all)-1], engine.Number, what)
	assert.Len(t, engine.All, len(all), what)
}

func TestNumbers(t *testing.T) {
	all := kinds()
	once := map[int32]string{}
	for name, list := range all {
		for _, n := range list.numbers {
			assert.Empty(t, once[n], "%d is also in %q", n, name)
			once[n] = name
		}
		t.Run(name, func(t *testing.T) {
			for _, n := range list.numbers {
				list.check(t, false, n)
				list.check(t, true, n)
			}
		})
	}
	for name, list := range map[string]set{"contention": contention, "wrongRole": wrongRole, "ofLogin": ofLogin, "databaseAway": databaseAway,
		"noTable": noTable, "noPermission": noPermission, "noDatabase": noDatabase, "noSpace": noSpace, "notOurTable": notOurTable} {
		for n := range list {
			assert.Contains(t, once, n, "a number of %s that this test does not know", name)
		}
	}
}

// TestNumbersTogether: an answer has several errors, and the one that counts need not be the last.
func TestNumbersTogether(t *testing.T) {
	all := kinds()
	inSomeLogin := func(n int32) (both [][]int32) { return [][]int32{{n, 18456}, {18456, n}} }
	t.Run("whatever says why the login failed counts more than that it did", func(t *testing.T) {
		for _, name := range []string{"the database is away or moving", "the server starts or stops"} {
			for _, n := range all[name].numbers {
				for _, both := range inSomeLogin(n) {
					outage.check(t, false, both...)
				}
			}
		}
		for _, n := range []int32{976, 978, 979, 982, 983, 988, 4221} {
			outage.check(t, false, n, 4060, 18456)
		}
		for _, both := range inSomeLogin(916) {
			wrongBase.check(t, false, both...)
		}
	})
	t.Run("the reason of a definition that failed is before it", func(t *testing.T) {
		otherForm.check(t, true, 2714, 1750)
		otherForm.check(t, true, 1913, 1750)
		noRight.check(t, true, 262, 1750)
	})
	t.Run("contention before what comes of it", func(t *testing.T) {
		inTheWay.check(t, true, 1205, 3980)
		inTheWay.check(t, true, 1222, 50001)
		inTheWay.check(t, true, 2627, 3621) // "the statement has been terminated"
	})
	t.Run("a message that says nothing changes nothing", func(t *testing.T) {
		for name, list := range all {
			if name != "the session was ended" { // its 0 is the number of an error that has none
				list.check(t, true, list.numbers[0], 3621)
				list.check(t, true, 3621, list.numbers[0])
			}
		}
	})
}

// TestWrongNode: connections to a server that has lost its role are not used again.
func TestWrongNode(t *testing.T) {
	for _, n := range []int32{3906, 3908, 976, 978, 979, 983, 988} {
		assert.True(t, wrongNode(engineError(n)), "%d", n)
		assert.True(t, wrongNode(engineError(n, 3621)), "%d and another", n)
	}
	for _, n := range []int32{208, 229, 1205, 1222, 18456, 40613} {
		assert.False(t, wrongNode(engineError(n)), "%d", n)
	}
}
