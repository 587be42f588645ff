// Package admissiontest is the suite that every [admission.Repository] must pass: the
// same decisions as the pure functions of package admission, step by step and to the
// last bit; all plans or none; exactly the capacity among thousands at once; and no key
// that counts for another, whatever is in it.
package admissiontest
