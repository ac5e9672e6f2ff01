import JSON

/// What one notification costs in one part: what is committed, or was counted now.
struct PartFigures: Equatable {
    var instructions: Double
    var swiftAllocations: Double
    var cAllocations: Double
}

extension PartFigures {
    init(_ profile: Profile) {
        self.init(
            instructions: profile.instructions, swiftAllocations: profile.swiftAllocations,
            cAllocations: profile.cAllocations)
    }
}

/// The file of committed figures, and what they were taken with.
struct Figures: Equatable {
    var takenWith: Toolchain
    /// By the part's word.
    var parts: [String: PartFigures] = [:]

    init(takenWith: Toolchain) { self.takenWith = takenWith }

    /// - Throws: when the file is not there, or is not such a file.
    init(file path: String) throws(BenchFailure) {
        guard let text = contents(of: path) else {
            throw BenchFailure(
                "the figures cannot be read from \(path); --figures names the file, --update makes it")
        }
        try self.init(text: text, path)
    }

    init(text: String, _ path: String) throws(BenchFailure) {
        takenWith = Toolchain()
        var text = text
        let problem = text.withUTF8 { bytes -> JSONError? in
            do throws(JSONError) {
                var json = try JSONReader(UnsafeRawBufferPointer(bytes))
                try read(&json)
                return nil
            } catch {
                return error
            }
        }
        if let problem { throw BenchFailure("\(path) is no file of figures: \(problem)") }
    }

    private mutating func read(_ json: inout JSONReader) throws(JSONError) {
        try json.enterObject()
        while let name = json.nextMember() {
            if name.equals("taken_with") {
                try json.enterObject()
                while let tool = json.nextMember() { takenWith.versions[tool.string] = try json.text().string }
            } else if name.equals("parts") {
                try json.enterObject()
                while let part = json.nextMember() { parts[part.string] = try Self.readPart(&json) }
            } else {
                json.skip()
            }
        }
    }

    private static func readPart(_ json: inout JSONReader) throws(JSONError) -> PartFigures {
        var part = PartFigures(instructions: 0, swiftAllocations: 0, cAllocations: 0)
        try json.enterObject()
        while let name = json.nextMember() {
            let value = try json.double()
            switch name.string {
            case "instructions": part.instructions = value
            case "swift_allocations": part.swiftAllocations = value
            case "c_allocations": part.cAllocations = value
            default: break
            }
        }
        return part
    }

    /// The file: a line a part, so that a change of one shows in a diff.
    var text: String {
        var lines = ["{", "  \"taken_with\": {"]
        let versions = takenWith.versions.sorted { $0.key < $1.key }
        lines += versions.enumerated().map { index, version in
            "    \"\(version.key)\": \"\(version.value)\"\(index + 1 < versions.count ? "," : "")"
        }
        lines += ["  },", "  \"parts\": {"]
        let parts = Part.allCases.compactMap { part in self.parts[part.rawValue].map { (part.rawValue, $0) } }
        lines += parts.enumerated().map { index, part in
            "    \"\(part.0)\": {\"instructions\": \(fixed(part.1.instructions, 1)), \"swift_allocations\": "
                + "\(fixed(part.1.swiftAllocations, 3)), \"c_allocations\": \(fixed(part.1.cAllocations, 3))}"
                + (index + 1 < parts.count ? "," : "")
        }
        lines += ["  }", "}"]
        return lines.joined(separator: "\n") + "\n"
    }
}
