import Foundation

/// The seeds of tests that draw thousands of worlds, from an environment variable.
package enum Seeds {
    /// The range of `NAME=20000` (0 to 20,000) or `NAME=4711..4712`, or `nil` without such a variable.
    package static func asked(by variable: String) -> Range<UInt64>? {
        guard let text = ProcessInfo.processInfo.environment[variable] else { return nil }
        let numbers = text.components(separatedBy: "..").compactMap { UInt64($0) }
        switch numbers.count {
        case 1: return 0..<numbers[0]
        case 2 where numbers[0] <= numbers[1]: return numbers[0]..<numbers[1]
        default: return nil
        }
    }

    /// Runs one seed after the other, and prints the progress.
    ///
    /// - Parameters:
    ///   - what: The name in the output.
    ///   - piece: The number of seeds between two lines.
    ///   - run: Returns whether all went well.
    package static func run(_ seeds: Range<UInt64>, of what: String, piece: Int, _ run: (UInt64) -> Bool) {
        let start = ContinuousClock.now
        var failures = 0
        for (count, seed) in seeds.enumerated() {
            if !run(seed) { failures += 1 }
            let done = count + 1
            guard done % piece == 0 || done == seeds.count else { continue }
            let seconds = max(1, Int((ContinuousClock.now - start).components.seconds))
            print("\(what): \(done) of \(seeds.count) seeds, \(failures) failed, \(done / seconds) a second")
        }
    }
}
