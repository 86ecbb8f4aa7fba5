// Package leasehold is the root of a distributed mutex for services that already run SQL Server.
//
//   - [github.com/aaravsoft/leasehold/mutex] is what services import: Lock, TryLock, Do, and the guard whose context ends
//     in time.
//   - [github.com/aaravsoft/leasehold/store] is the contract with the database; store/mssql, store/sqlite and
//     store/memory implement it, and store/storetest checks any implementation.
//   - [github.com/aaravsoft/leasehold/lease] is the caller-driven form: no timers, one call at the store a method.
//
// There is no code in this package; its tests keep the rules of the repository.
package leasehold
