import Configuration
import Testing

private struct Values: Equatable {
    var file = ""
    var count = 1
    var names: [String] = []
    var isLoud = false
}

private let table = OptionTable<Values>(
    command: "tool do", usage: ["[OPTIONS]"],
    about: ["Does it, and tells what it did in more than one line of words so that a long line must be broken."],
    options: [
        .init("config", "c", value: "FILE", "The file.") { $0.file = $1 },
        .init(
            "count", value: "N",
            "How many; a long explanation that does not fit on one line of the help, because it goes on and on."
        ) {
            values, text in values.count = try OptionValue.integer(text, 1...9)
        },
        .init("name", "n", value: "NAME", "A name; again for more.") { $0.names.append($1) },
        .init("loud", "l", value: nil, "Loudly.") { values, _ in values.isLoud = true },
    ], notes: "The end.")

@Suite struct OptionTableTests {
    @Test(
        arguments: [
            ([], Values()),
            (["--config", "a"], Values(file: "a")),
            (["--config=a=b"], Values(file: "a=b")),
            (["--conf", "a"], Values(file: "a")),
            (["-c", "a"], Values(file: "a")),
            (["-ca"], Values(file: "a")),
            (["-lc", "a", "-n", "x", "--name=y"], Values(file: "a", names: ["x", "y"], isLoud: true)),
            (["--count", "3", "--count", "4"], Values(count: 4)),
            (["--config", ""], Values(file: "")),
            (["--config", "--loud"], Values(file: "--loud")),
            (["--loud", "--"], Values(isLoud: true)),
        ] as [([String], Values)])
    fileprivate func `Options are parsed`(arguments: [String], expected: Values) throws {
        #expect(try table.parse(arguments, Values()) == expected)
    }

    @Test(arguments: [
        (["--confg", "a"], "unknown option \"--confg\"; did you mean --config?"),
        (["--zzzzzz"], "unknown option \"--zzzzzz\""),
        (["--zzz=secret"], "unknown option \"--zzz\""),
        (["--co"], "\"--co\" is ambiguous: it may be --config or --count"),
        (["-x"], "unknown option \"-x\""),
        (["-lx"], "unknown option \"-x\""),
        (["--config"], "--config needs a value"),
        (["-c"], "-c needs a value"),
        (["--loud=1"], "--loud takes no value"),
        (["--count", "10"], "--count: expected a whole number from 1 to 9, found \"10\""),
        (["--count", "a\nb"], "--count: expected a whole number from 1 to 9, found \"a\\nb\""),
        (["a"], "unexpected argument \"a\""),
        (["--loud", "a", "-c", "b"], "unexpected argument \"a\""),
        (["--", "-l"], "unexpected argument \"-l\""),
        (["-"], "unexpected argument \"-\""),
    ])
    func `Invalid arguments are refused`(arguments: [String], expected: String) {
        #expect(throws: UsageError("tool do: \(expected) (see tool do --help)")) {
            try table.parse(arguments, Values())
        }
    }

    @Test(arguments: [["--help"], ["-h"], ["--he"], ["-lh"], ["--help", "--count", "99"]])
    func `Help can be requested anywhere`(arguments: [String]) throws {
        #expect(try table.parse(arguments, Values()) == nil)
    }

    @Test func `Help lists the options within 100 columns`() {
        #expect(
            table.help == """
                Usage: tool do [OPTIONS]

                Does it, and tells what it did in more than one line of words so that a long line must be broken.

                Options:
                  -c, --config FILE  The file.
                      --count N      How many; a long explanation that does not fit on one line of the help, because
                                     it goes on and on.
                  -n, --name NAME    A name; again for more.
                  -l, --loud         Loudly.
                  -h, --help         Print this help and exit.

                The end.

                """)
        let long = Array(repeating: "word", count: 30).joined(separator: " ")
        let notes = OptionTable<Values>(command: "do", usage: [""], about: [], options: [], notes: "  a  b\n\n\(long)")
            .help
        #expect(notes.hasSuffix("\n\n  a  b\n\n\(long.prefix(99))\n\(long.suffix(49))\n"))
    }

    @Test(
        arguments: [
            ("asignment", "assignment"), ("MAX_AGE", "max_age"), ("maxage", "max_age"), ("qqqqqq", nil), ("a", nil),
            ("tpoic", "topic"),
        ] as [(String, String?)])
    func `The nearest word is suggested`(word: String, expected: String?) {
        #expect(nearest(to: word, among: ["assignment", "max_age", "topic", "max_open"]) == expected)
    }
}
