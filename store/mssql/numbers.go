package mssql

// The engine's error numbers, by what they mean for a lease. What is in none of the lists is taken for an outage.

// contention: somebody was in the way; it can be repeated at once.
var contention = numbers(
	1205,       // chosen as the victim of a deadlock
	1222,       // lock timeout
	3960, 3966, // snapshot conflict
	601, 617, 669, 3635, // rows moved while they were read
	2627, 2601, // duplicate key
	3980,         // the batch was aborted
	busyCreating, // schemaSQL's own
	33557097,     // Babelfish's number for whatever has none; a lock timeout, from our statements
)

// wrongRole: the server, or the database on it, is not what it was when the connection was made.
var wrongRole = numbers(
	3906, 3908, // the database is read-only, or in emergency mode
	976, 978, 979, 983, 988, // a replica that does not serve
)

// collations: two texts of different collations were compared.
var collations = numbers(468)

// ofLogin: a login was refused, for a reason that more specific numbers beside it may say.
var ofLogin = numbers(18456, 18452, 18470, 18486, 18487, 18488)

// outages that can come with a refused login, and say more.
var databaseAway = numbers(
	4060, 40613, 40197, 40143, 40540, 40166, 40020, 40501, 10928, 10929, 10930, 10936, 40642, 40648, 40675, 40903,
	49918, 49919, 49920, 42108, 42109, 49802, 49977, 49983, 615, 913, 921, 922, 923, 924, 926, 927, 941, 942, 945, 952, 954, 955, 956,
	976, 978, 979, 982, 983, 988, 3906, 3908, 4221, 17142, 17197, 18401, 6005, 17187, 17188,
)

// misconfigured: it will be the same the next time.
var (
	noTable      = numbers(208)
	noPermission = numbers(229, 230, 262, 297, 300, 371, 2760)
	noDatabase   = numbers(916, 4064, 40615)
	noSpace      = numbers(40544)
	notOurTable  = numbers(
		207, 213, 241, 245, 257, 334, 468, 515, 547, 8152, 2628, 8114, 8115, 206, 1785, 4140, 650, // columns, types, constraints, hints
		102, 105, 137, 156, 195, 201, 319, 2812, 8144, 8145, 8178, 8003, 15151, // the statement itself
		1750, 1779, 1801, 1913, 2714, 2759, // definitions
	)
)

type set map[int32]struct{}

func numbers(list ...int32) set {
	s := set{}
	for _, n := range list {
		s[n] = struct{}{}
	}
	return s
}
