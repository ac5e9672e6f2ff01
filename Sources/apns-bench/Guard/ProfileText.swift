import Glibc

/// Profiles as tables.
enum ProfileText {
    static let topCount = 25

    static func whole(_ profile: Profile) -> String {
        var lines = [
            "a notification takes \(fixed(profile.instructions, 0)) instructions, "
                + "\(fixed(profile.swiftAllocations, 3)) Swift allocations, \(fixed(profile.cAllocations, 3)) others",
            "", "instructions by module",
        ]
        lines += profile.modules.filter { $0.instructions >= profile.instructions / 500 }
            .map { line($0.instructions, of: profile, $0.name) }
        lines += ["", "allocations (malloc, calloc, realloc) by the library that asks"]
        lines.append("\(right(fixed(profile.swiftAllocations, 3), 12))          Swift's heap")
        lines += profile.cAllocationsByLibrary.map { "\(right(fixed($0.count, 3), 12))          \($0.library)" }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Functions by what they take themselves, without what they call.
    static func top(of profile: Profile) -> String {
        var lines = ["instructions by function, without what it calls"]
        lines += profile.functions.prefix(topCount).map { row in
            line(row.instructions, of: profile, "\(row.function.library)  \(demangled(row.function.name))")
        }
        for (title, callers) in [
            ("Swift allocations by caller", profile.swiftAllocators),
            ("malloc, calloc and realloc by caller", profile.cAllocators),
        ] {
            lines += ["", title]
            lines += callers.prefix(topCount).map { caller in
                "\(right(fixed(caller.count, 3), 12))          \(caller.function.library)  "
                    + demangled(caller.function.name)
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func line(_ instructions: Double, of profile: Profile, _ name: String) -> String {
        let share = profile.instructions > 0 ? instructions / profile.instructions * 100 : 0
        return "\(right(fixed(instructions, 1), 12))\(right(fixed(share, 1), 7)) %  \(name)"
    }

    private static func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    private typealias Demangler =
        @convention(c) (
            UnsafePointer<CChar>?, Int, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<Int>?, UInt32
        ) -> UnsafeMutablePointer<CChar>?

    /// The runtime's own; `nil` where it was linked without it.
    private static var demangler: Demangler? {
        dlsym(nil, "swift_demangle").map { unsafeBitCast($0, to: Demangler.self) }
    }

    /// A Swift symbol as it is written, without its parameters' types; others as they are.
    static func demangled(_ symbol: String) -> String {
        guard symbol.hasPrefix("$s"), let demangler,
            let raw = demangler(symbol, symbol.utf8.count, nil, nil, 0)
        else { return String(symbol.prefix(110)) }
        defer { free(raw) }
        var name = Substring(String(cString: raw))
        // What the optimizer made of it comes before.
        var isSpecialized = false
        while let range = name.range(ofWord: "specialization "), let of = name[range...].range(ofWord: "> of ") {
            name = name[name.index(of, offsetBy: 5)...]
            isSpecialized = true
        }
        if let parameters = name.firstIndex(of: "("), parameters != name.startIndex { name = name[..<parameters] }
        return String(name.prefix(100)) + (isSpecialized ? " (specialized)" : "")
    }
}

extension Substring {
    /// Where this word begins for the first time.
    fileprivate func range(ofWord word: String) -> Index? {
        var place = startIndex
        while place < endIndex {
            if self[place...].hasPrefix(word) { return place }
            place = index(after: place)
        }
        return nil
    }
}
