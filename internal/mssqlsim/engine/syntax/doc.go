// Package syntax reads a batch of T-SQL for the simulated SQL Server. The grammar is a third party's,
// github.com/sqlc-dev/teesql, so that it judges our statements and not the other way round; this package makes up for
// what that parser lets through:
//
//   - It loses or misreads the COLLATE clause after most expressions. COLLATE is therefore taken out of the text before
//     it is parsed and kept with the place where it stood ([Batch.Collation]).
//   - It skips words that it has no rule for. Every word of the text must therefore be in the tree, or be one of the
//     keywords that the supported statements are made of.
//   - It knows far more than the simulator does. What the tree may hold is a list of types and fields; anything else
//     is refused by name. So nothing that a client sends is silently ignored: no clause, no hint, no option.
package syntax
