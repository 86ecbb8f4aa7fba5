package syntax

import "strings"

// supported is every type of node that the engine interprets, with its fields. A field with words behind it may have
// only these as value.
var supported = table(`
Batch: Statements
StatementList: Statements
BeginEndBlockStatement: StatementList
IfStatement: Predicate, ThenStatement, ElseStatement
WhileStatement: Predicate, Statement
BreakStatement:
ContinueStatement:
ReturnStatement:
TryCatchStatement: TryStatements, CatchStatements
ThrowStatement: ErrorNumber, Message, State
BeginTransactionStatement:
CommitTransactionStatement: DelayedDurabilityOption NotSet
RollbackTransactionStatement:
PredicateSetStatement: Options NoCount XactAbort ImplicitTransactions, IsOn
SetCommandStatement: Commands
GeneralSetCommand: CommandType LockTimeout, Parameter
SetTransactionIsolationLevelStatement: Level ReadCommitted
SetVariableStatement: Variable, Expression, AssignmentKind Equals AddEquals SubtractEquals
DeclareVariableStatement: Declarations
DeclareVariableElement: VariableName, DataType, Value
DeclareTableVariableStatement: Body
DeclareTableVariableBody: VariableName, Definition, AsDefined

SelectStatement: QueryExpression
QuerySpecification: UniqueRowFilter NotSpecified All, TopRowFilter, SelectElements, FromClause, WhereClause, OrderByClause
SelectScalarExpression: Expression, ColumnName
SelectStarExpression: Qualifier
SelectSetVariable: Variable, Expression, AssignmentKind Equals
IdentifierOrValueExpression: Value, Identifier
FromClause: TableReferences
WhereClause: SearchCondition
OrderByClause: OrderByElements
ExpressionWithSortOrder: SortOrder NotSpecified Ascending Descending, Expression
TopRowFilter: Expression
NamedTableReference: SchemaObject, Alias, TableHints
VariableTableReference: Variable, Alias
TableHint: HintKind
OpenJsonTableReference: Variable, SchemaDeclarationItems, Alias
SchemaDeclarationItemOpenjson: ColumnDefinition, Mapping
ColumnDefinitionBase: ColumnIdentifier, DataType
InlineDerivedTable: RowValues, Alias, Columns
QualifiedJoin: SearchCondition, QualifiedJoinType Inner LeftOuter, JoinHint None, FirstTableReference, SecondTableReference

InsertStatement: InsertSpecification
InsertSpecification: InsertOption None Into, InsertSource, Target, Columns, OutputClause, OutputIntoClause
ValuesInsertSource: RowValues
RowValue: ColumnValues
SelectInsertSource: Select
UpdateStatement: UpdateSpecification
UpdateSpecification: SetClauses, Target, TopRowFilter, FromClause, WhereClause, OutputClause, OutputIntoClause
AssignmentSetClause: Column, NewValue, AssignmentKind Equals
DeleteStatement: DeleteSpecification
DeleteSpecification: Target, TopRowFilter, FromClause, WhereClause, OutputClause, OutputIntoClause
OutputClause: SelectColumns
OutputIntoClause: SelectColumns, IntoTable, IntoTableColumns

ColumnReferenceExpression: ColumnType Regular Wildcard, MultiPartIdentifier
MultiPartIdentifier: Count, Identifiers
Identifier: Value, QuoteType
SchemaObjectName: SchemaIdentifier, BaseIdentifier, Count, Identifiers
VariableReference: Name
GlobalVariableExpression: Name
IntegerLiteral: LiteralType, Value
StringLiteral: LiteralType, Value, IsNational
BinaryLiteral: LiteralType, Value
NullLiteral: LiteralType, Value
MaxLiteral: LiteralType, Value
IdentifierLiteral: LiteralType, Value, QuoteType
DefaultLiteral: LiteralType, Value
ParenthesisExpression: Expression
BinaryExpression: BinaryExpressionType Add Subtract Multiply Divide, FirstExpression, SecondExpression
UnaryExpression: UnaryExpressionType Negative Positive, Expression
FunctionCall: FunctionName, Parameters, UniqueRowFilter NotSpecified
LeftFunctionCall: Parameters
RightFunctionCall: Parameters
NullIfExpression: FirstExpression, SecondExpression
CoalesceExpression: Expressions
IIfCall: Predicate, ThenExpression, ElseExpression
SearchedCaseExpression: WhenClauses, ElseExpression
SearchedWhenClause: WhenExpression, ThenExpression
SimpleCaseExpression: InputExpression, WhenClauses, ElseExpression
SimpleWhenClause: WhenExpression, ThenExpression
ScalarSubquery: QueryExpression
CastCall: DataType, Parameter
TryCastCall: DataType, Parameter
ConvertCall: DataType, Parameter, Style
TryConvertCall: DataType, Parameter
SqlDataTypeReference: SqlDataTypeOption, Parameters, Name
UserDataTypeReference: Name
ExistsPredicate: Subquery
BooleanBinaryExpression: BinaryExpressionType And Or, FirstExpression, SecondExpression
BooleanComparisonExpression: ComparisonType, FirstExpression, SecondExpression
BooleanInExpression: Expression, NotDefined, Values, Subquery
BooleanIsNullExpression: IsNot, Expression
BooleanLikeExpression: FirstExpression, SecondExpression, EscapeExpression, NotDefined
BooleanNotExpression: Expression
BooleanParenthesisExpression: Expression
BooleanTernaryExpression: TernaryExpressionType Between NotBetween, FirstExpression, SecondExpression, ThirdExpression

ExecuteStatement: ExecuteSpecification
ExecuteSpecification: Variable, ExecutableEntity
ExecutableProcedureReference: ProcedureReference, Parameters
ProcedureReferenceName: ProcedureReference
ProcedureReference: Name
ExecuteParameter: ParameterValue, Variable
ExecutableStringList: Strings

CreateSchemaStatement: Name, StatementList
CreateTableStatement: SchemaObjectName, Definition
TableDefinition: ColumnDefinitions, TableConstraints
ColumnDefinition: ColumnIdentifier, DataType, Constraints, Nullable
NullableConstraintDefinition: Nullable
UniqueConstraintDefinition: ConstraintIdentifier, Clustered, IsPrimaryKey, Columns, IndexType
IndexType: IndexTypeKind Clustered NonClustered
ColumnWithSortOrder: Column, SortOrder
CreateIndexStatement: Name, OnName, Columns, Clustered
DropTableStatement: IsIfExists, Objects
DropSchemaStatement: IsIfExists, Schema
DropTriggerStatement: Objects, TriggerScope Normal
CreateTriggerStatement: Name, TriggerObject, TriggerType For After InsteadOf, TriggerActions, StatementList
TriggerObject: Name, TriggerScope Normal
TriggerAction: TriggerActionType Insert Update Delete
GrantStatement: Permissions, Principals, SecurityTargetObject
DenyStatement: Permissions, Principals, SecurityTargetObject
RevokeStatement: Permissions, Principals, SecurityTargetObject
Permission: Identifiers
SecurityPrincipal: PrincipalType Identifier, Identifier
SecurityTargetObject: ObjectKind NotSpecified Object Schema, ObjectName
SecurityTargetObjectName: MultiPartIdentifier
`)

// keywords are the words of these statements that are not names of anything.
var keywords = words(`
ADD AFTER ALL ALTER AND AS ASC BEGIN BETWEEN BREAK BY CASE CAST CATCH CLUSTERED COALESCE COMMIT CONSTRAINT CONTINUE
CONVERT CREATE DECLARE DELETE DENY DESC DROP ELSE END ESCAPE EXEC EXECUTE EXISTS FOR FROM GRANT IF IIF IMPLICIT_TRANSACTIONS IN INDEX INNER
INSERT INSTEAD INTO IS ISOLATION JOIN KEY LEFT LEVEL LIKE LOCK_TIMEOUT NOCOUNT NONCLUSTERED NOT NULL NULLIF OBJECT OF OFF ON
OPENJSON OR ORDER OUTER OUTPUT PRIMARY READ COMMITTED RETURN REVOKE RIGHT ROLLBACK SCHEMA SELECT SET TABLE THEN THROW
TO TOP TRAN TRANSACTION TRIGGER TRY TRY_CAST TRY_CONVERT UPDATE VALUES WHEN WHERE WHILE WITH XACT_ABORT
`)

func table(text string) map[string]map[string]string {
	nodes := map[string]map[string]string{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		fields := map[string]string{}
		for field := range strings.SplitSeq(rest, ",") {
			fieldName, values, _ := strings.Cut(strings.TrimSpace(field), " ")
			fields[fieldName] = values
		}
		nodes[name] = fields
	}
	return nodes
}

func words(text string) map[string]struct{} {
	set := map[string]struct{}{}
	for word := range strings.FieldsSeq(text) {
		set[word] = struct{}{}
	}
	return set
}
