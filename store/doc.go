// Package store is the contract between a lease and the database that keeps it.
//
// A lease is one row: a name, an owner and an expiry. [Store] has the three operations that a lock needs;
// [Inspector] has what an operator needs. Package storetest checks every rule below against an implementation.
//
// # Rules
//
// S1. One holder. Acquire grants a claim if and only if the name has no row, or its row has expired, or its row has
// the claim's own owner. It decides and writes in one atomic step: of any number of concurrent claims on one free
// name exactly one is granted.
//
// S2. The store's clock alone decides. Claims carry durations, never times. At Expires <= now a lease is expired for
// everybody: Renew fails and Acquire wins. A grant expires TTL after the store's now.
//
// S3. A late statement never shortens its own row. When Renew or Acquire finds its own live row, the new Expires is
// now+TTL if that is later; else the old value if it is at most now+2*TTL; else now+TTL (the clock had stepped).
//
// S4. Owner and name are compared exactly, byte by byte. Renew, Release and Break touch a row only if its owner is
// the given one. On a table whose name column has a coarser collation, names that it calls equal exclude each other,
// and a refusal shows the stored spelling.
//
// S5. Renew never creates a row and never revives an expired one. It changes Renewed and Expires, nothing else. An
// Acquire that finds its own live row keeps Acquired, takes the claim's metadata, and extends like Renew.
//
// S6. Release deletes. It reports a row that had already expired, or was not there, as lost.
//
// S7. Tokens grow. The Version of a grant is greater than that of every earlier grant of the same name, also across
// deletion of the row, and also if the row was contended. It is drawn only once the row is this grant's.
//
// S8. Batches. Renew and Release take up to [MaxBatch] claims, each (name, owner) pair at most once, and answer per
// claim, in order. One claim's trouble (invalid, lost, blocked by another session) never costs another its answer. An
// empty batch is answered without a look at the database.
//
// S9. Input is validated before anything is sent: class [ErrInvalid].
//
// S10. Every error has exactly one class. [ErrUnavailable] says whether the statement may have been applied
// ([ErrUnclear]): only what fails before the statement is handed to a connection proves that it was not. A context
// that has ended is ErrUnavailable too, and errors.Is finds its error.
//
// S11. A store answers for the primary alone, is safe for concurrent use, starts no retries of a statement that was
// sent, and has no opinion on how long a call may take beyond its context: the callers bound calls.
//
// S12. The slice of claims belongs to the call: a store never writes to it, and a caller does not touch it again, for
// it may have to abandon a call that goes on reading.
//
// S13. Metadata is returned as it was given; "" is stored as no metadata. Times are in UTC.
package store
