// Package chaos has many clients take locks while a schedule of faults strikes what lies between them and the store, records
// everything on one clock, and judges the record afterwards. README.md says how to run it and how to read it.
//
// The subpackages: history records, check judges, timeline draws. What is here drives: topologies (what there is to break),
// the schedule, the clients, and the flawed variants that prove that the checkers see something.
package chaos
