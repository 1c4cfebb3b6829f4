# Sums the output of several `cargo test` (scripts/test.sh): what failed, each on a line, and last how many.
#
#   awk -v seconds=450 -v broken='LOG...' -f scripts/test_sum.awk LOG...
#
# `broken` names those whose cargo has failed, whatever they say. Fails where a test has failed, a test program has
# ended without its result, or no test has run.

# A test program that ends by a signal prints no result.
function end_of_program(file) {
    if (program != "" && !reported) fail(file, program " (ended without a result)")
    program = ""
}
function fail(file, what) {
    print "FAILED " what
    named++
    named_of[file]++
}

FNR == 1 {
    end_of_program(before)
    before = FILENAME
}
/^ +(Running|Doc-tests) / || /^error: test failed, to rerun / {
    end_of_program(FILENAME)
}
/^ +(Running|Doc-tests) / {
    program = $0
    sub(/^ +(Running (unittests )?)?/, "", program)
    sub(/ \(.*/, "", program)
    reported = 0
}
/^test .* FAILED$/ {
    name = $0
    sub(/^test /, "", name)
    sub(/ \.\.\. FAILED$/, "", name)
    fail(FILENAME, program ": " name)
}
/^test result: / {
    for (i = 2; i < NF; i++) {
        if ($(i + 1) ~ /^passed;/) passed += $i
        if ($(i + 1) ~ /^failed;/) failed += $i
        if ($(i + 1) ~ /^ignored;/) ignored += $i
    }
    reported = 1
}
END {
    end_of_program(before)
    count = split(broken, files, " ")
    for (i = 1; i <= count; i++) {
        lane = files[i]
        sub(/.*\//, "", lane)
        if (!named_of[files[i]]) fail(files[i], lane " (cargo itself, see above)")
    }
    # What is no test counts as one.
    if (failed < named) failed = named
    print "in " seconds " s"
    print "test: " passed + 0 " passed, " failed + 0 " failed" (ignored ? ", " ignored " skipped" : "")
    if (!passed && !failed) print "test: no test has run" >"/dev/stderr"
    exit !(passed && !failed)
}
