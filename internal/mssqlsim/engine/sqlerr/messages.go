package sqlerr

// Numbers that code asks for.
const (
	NumberDeadlock    = 1205
	NumberLockTimeout = 1222
)

// Syntax is an error of the parser.
func Syntax(text string) *Error {
	return New(102, "Incorrect syntax: %s", text).With(15, 1).Ends(EndsCompilation)
}

// NoVariable is a scalar variable that nobody declared.
func NoVariable(name string) *Error {
	return New(137, "Must declare the scalar variable %q.", name).With(15, 2).Ends(EndsCompilation)
}

// NoTableVariable is a table variable that nobody declared.
func NoTableVariable(name string) *Error {
	return New(1087, "Must declare the table variable %q.", name).With(15, 2).Ends(EndsCompilation)
}

// NoColumn is a column that does not exist.
func NoColumn(name string) *Error {
	return New(207, "Invalid column name '%s'.", name).Ends(EndsCompilation)
}

// AmbiguousColumn is a column of several tables.
func AmbiguousColumn(name string) *Error {
	return New(209, "Ambiguous column name '%s'.", name).Ends(EndsCompilation)
}

// NoPrefix is the qualifier of a column that names no table of the statement.
func NoPrefix(name string) *Error {
	return New(4104, "The multi-part identifier \"%s\" could not be bound.", name).Ends(EndsCompilation)
}

// NoObject is a table that does not exist. It is found when the statement is compiled, which for a missing table is
// when its turn comes (deferred name resolution): what stood before it has run, nothing after it does, and no TRY of
// the same batch sees it.
func NoObject(name string) *Error {
	return New(208, "Invalid object name '%s'.", name).Ends(EndsCompilation)
}

// Denied is a missing permission on an object. schema is empty for the permission on a schema itself.
func Denied(permission, object, database, schema string) *Error {
	return New(229, "The %s permission was denied on the object '%s', database '%s', schema '%s'.",
		permission, object, database, schema).With(14, 5)
}

// DeniedStatement is a missing permission for a kind of statement, as CREATE TABLE.
func DeniedStatement(permission, database string) *Error {
	return New(262, "%s permission denied in database '%s'.", permission, database).With(14, 1)
}

// DuplicateKey is a second row with the primary key of another.
func DuplicateKey(constraint, object, value string) *Error {
	return New(2627, "Violation of PRIMARY KEY constraint '%s'. Cannot insert duplicate key in object '%s'. The duplicate key value is (%s).",
		constraint, object, value).With(14, 1)
}

// NotNull is NULL for a column that does not allow it.
func NotNull(column, table, statement string) *Error {
	return New(515, "Cannot insert the value NULL into column '%s', table '%s'; column does not allow nulls. %s fails.",
		column, table, statement).With(16, 2)
}

// Truncated is a value longer than its column.
func Truncated(table, column, value string) *Error {
	return New(2628, "String or binary data would be truncated in table '%s', column '%s'. Truncated value: '%s'.",
		table, column, value)
}

// Deadlock is the fate of a deadlock's victim.
func Deadlock(process uint64) *Error {
	return New(NumberDeadlock, "Transaction (Process ID %d) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.",
		process).With(13, 51).Ends(EndsTransaction)
}

// LockTimeout is a lock that was not granted within LOCK_TIMEOUT.
func LockTimeout() *Error {
	return New(NumberLockTimeout, "Lock request time out period exceeded.").With(16, 51)
}

// ReadOnly is a write to a database that cannot be written.
func ReadOnly(database string) *Error {
	return New(3906, "Failed to update database \"%s\" because the database is read-only.", database)
}

// DateDiffOverflow is a DATEDIFF that does not fit an int.
func DateDiffOverflow() *Error {
	return New(535, "The datediff function resulted in an overflow. The number of dateparts separating two date/time instances is too large. Try to use datediff with a less precise datepart.").With(16, 0)
}

// Overflow is a number too large for its type.
func Overflow(typ string) *Error {
	return New(8115, "Arithmetic overflow error converting expression to data type %s.", typ).With(16, 2)
}

// DateOverflow is a date beyond the year 9999 or before the year 1.
func DateOverflow(typ string) *Error {
	return New(517, "Adding a value to a '%s' column caused an overflow.", typ)
}

// DivideByZero is what it says.
func DivideByZero() *Error { return New(8134, "Divide by zero error encountered.") }

// Conversion is a value that cannot become one of another type.
func Conversion(from, value, to string) *Error {
	return New(245, "Conversion failed when converting the %s value '%s' to data type %s.", from, value, to).Ends(EndsTransaction)
}

// DateConversion is a string that is no date.
func DateConversion() *Error {
	return New(241, "Conversion failed when converting date and/or time from character string.").Ends(EndsTransaction)
}

// Operand is an operator or function that does not take a type, or two types that do not go together.
func Operand(typ1, typ2, operator string) *Error {
	return New(402, "The data types %s and %s are incompatible in the %s operator.", typ1, typ2, operator).Ends(EndsCompilation)
}

// NoConversion is a pair of types between which no conversion exists, implicit or not.
func NoConversion(from, to string) *Error {
	return New(206, "Operand type clash: %s is incompatible with %s", from, to).With(16, 2).Ends(EndsCompilation)
}

// CollationConflict is a comparison of strings of two collations without a COLLATE that decides.
func CollationConflict(left, right, operation string) *Error {
	return New(468, "Cannot resolve the collation conflict between \"%s\" and \"%s\" in the %s operation.", left, right, operation).
		With(16, 9).Ends(EndsCompilation)
}

// NoTransaction is a COMMIT or ROLLBACK without BEGIN TRANSACTION.
func NoTransaction(statement string) *Error {
	number := int32(3902)
	if statement == "ROLLBACK" {
		number = 3903
	}
	return New(number, "The %s TRANSACTION request has no corresponding BEGIN TRANSACTION.", statement)
}

// Doomed is a write, or COMMIT, in a transaction that can only be rolled back.
func Doomed() *Error {
	return New(3930, "The current transaction cannot be committed and cannot support operations that write to the log file. Roll back the transaction.").Ends(EndsTransaction)
}

// DoomedAtEnd is a batch that ended with such a transaction.
func DoomedAtEnd() *Error {
	return New(3998, "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.")
}

// TransactionCount is a procedure that left more or fewer transactions open than it found.
func TransactionCount(before, after int) *Error {
	return New(266, "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count = %d, current count = %d.",
		before, after).With(16, 2)
}

// Exists is a name that is taken.
func Exists(name string) *Error {
	return New(2714, "There is already an object named '%s' in the database.", name).With(16, 6)
}

// IndexExists is the name of an index that the table has already.
func IndexExists(index, table string) *Error {
	return New(1913, "The operation failed because an index or statistics with name '%s' already exists on table '%s'.", index, table)
}

// NoSchema is a schema that does not exist.
func NoSchema(name string) *Error {
	return New(2760, "The specified schema name \"%s\" either does not exist or you do not have permission to use it.", name)
}

// NoPrincipal is a user that does not exist.
func NoPrincipal(name string) *Error {
	return New(15151, "Cannot find the user '%s', because it does not exist or you do not have permission.", name)
}

// NoDrop is a table to drop that does not exist.
func NoDrop(name string) *Error {
	return New(3701, "Cannot drop the table '%s', because it does not exist or you do not have permission.", name).With(11, 5)
}

// Triggers is an OUTPUT clause without INTO on a table with triggers.
func Triggers(table string) *Error {
	return New(334, "The target table '%s' of the DML statement cannot have any enabled triggers if the statement contains an OUTPUT clause without INTO clause.", table).
		Ends(EndsCompilation)
}

// ReadPast is a READPAST hint where locks are not used for reading.
func ReadPast() *Error {
	return New(650, "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels.").
		Ends(EndsCompilation)
}

// ReadCommittedLockTarget is that hint on the target of an INSERT.
func ReadCommittedLockTarget() *Error {
	return New(4140, "The READCOMMITTEDLOCK lock hint is not allowed on the target table of an INSERT statement.").Ends(EndsCompilation)
}

// NoProcedure is a procedure that does not exist.
func NoProcedure(name string) *Error {
	return New(2812, "Could not find stored procedure '%s'.", name).With(16, 62)
}

// MoreThanOneRow is a scalar subquery with several rows.
func MoreThanOneRow() *Error {
	return New(512, "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or when the subquery is used as an expression.")
}

// NotUpdatable is a value for a column that only the server fills.
func NotUpdatable(statement string) *Error {
	if statement == "UPDATE" {
		return New(272, "Cannot update a timestamp column.").Ends(EndsCompilation)
	}
	return New(273, "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp column, or insert a DEFAULT into the timestamp column.").
		Ends(EndsCompilation)
}

// ColumnCount is an INSERT whose values are not as many as its columns.
func ColumnCount() *Error {
	return New(213, "Column name or number of supplied values does not match table definition.").Ends(EndsCompilation)
}

// BadJSON is text for OPENJSON that is no JSON.
func BadJSON() *Error {
	return New(13609, "JSON text is not properly formatted.").With(16, 4)
}

// ThrowOutsideCatch is THROW without arguments outside of a CATCH block.
func ThrowOutsideCatch() *Error {
	return New(10704, "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement inside a CATCH block, or add error parameters to the THROW statement.").
		With(15, 1).Ends(EndsCompilation)
}

// Killed is the end of a session by somebody else.
func Killed() *Error {
	return New(596, "Cannot continue the execution because the session is in the kill state.").With(21, 1).Ends(EndsSession)
}

// NoReadableSecondary is read-only routing without a target.
func NoReadableSecondary(database string) *Error {
	return New(982, "Unable to access the '%s' database because no online secondary replicas are enabled for read-only access. Check the availability group configuration to verify that at least one secondary replica is configured for read-only access. Wait for an enabled replica to come online, and retry your read-only operation.", database).
		With(14, 1)
}
