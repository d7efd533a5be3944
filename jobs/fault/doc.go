// Package fault is what a test build can be told to suffer: a death or a stop
// between any two steps, a clock that steps, another boot. Only a build with
// the tag "faults" obeys; in every other one each function is what it stands
// for, and costs nothing.
//
// A test build reads its environment:
//
//	BATCHQ_FAULT=WHAT/MOMENT[:N][=stop]  SIGKILL, or SIGSTOP, of itself at the
//	                                     Nth (first) time that it is there
//	BATCHQ_FAULT_TRACE=FILE              every moment reached, one a line
//	BATCHQ_FAULT_CLOCK=FILE              how far the wall clock is off: a
//	                                     duration such as -48h, read at each look
//	BATCHQ_FAULT_BOOT=TEXT               the boot id
//
// Commands that batchq runs inherit these unless the test clears them.
package fault
