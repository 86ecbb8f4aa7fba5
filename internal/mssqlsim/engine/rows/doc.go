// Package rows is the storage of one node of the simulated SQL Server: a catalog of tables, their rows with the
// versions that readers may still need, transactions that can be undone from any point, and a log of what was committed.
//
// It knows no locks: whoever writes a row must hold it exclusively, and whoever reads the newest version while others
// write must hold it shared. Every method is one short step under a mutex.
package rows
