import JSON

extension RequestParser {
    /// The values of one record's headers or members, by name. The table is reused for each record, and its values are
    /// borrowed.
    struct ValueTable<Name: RawRepresentable & CaseIterable>: ~Copyable where Name.RawValue == UInt8 {
        private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
        /// A bit set of the names that have a value.
        private var present: UInt32 = 0
        /// A bit set of the names that occurred, with or without a value.
        private var seen: UInt32 = 0

        init() {
            let count = Name.allCases.count
            precondition(count <= UInt32.bitWidth, "A table must have at most 32 names, one for each bit")
            values = .allocate(capacity: count)
            values.initialize(repeating: .nothing, count: count)
        }

        deinit { values.deallocate() }

        mutating func removeAll() {
            present = 0
            seen = 0
        }

        /// Adds a value, or returns `false` and changes nothing if the name has occurred before.
        @inline(__always)
        mutating func add(_ name: Name, _ value: UnsafeRawBufferPointer) -> Bool {
            let bit: UInt32 = 1 &<< UInt32(name.rawValue)
            guard seen & bit == 0 else { return false }
            seen |= bit
            guard value.baseAddress != nil else { return true }
            present |= bit
            values[Int(name.rawValue)] = value
            return true
        }

        /// Returns whether the name occurred in the record, with or without a value.
        @inline(__always)
        func contains(_ name: Name) -> Bool { seen & (1 &<< UInt32(name.rawValue)) != 0 }

        @inline(__always)
        subscript(_ name: Name) -> UnsafeRawBufferPointer? {
            present & (1 &<< UInt32(name.rawValue)) != 0 ? values[Int(name.rawValue)] : nil
        }
    }

    /// The headers of one record that the worker copies to its results. The list is reused for each record, and its
    /// headers are borrowed.
    ///
    /// The list includes `push-replay-of` (`ReplayWriter`). The worker also copies these headers to retry records.
    struct CopiedHeaders: ~Copyable {
        /// The names of headers that the worker always copies, regardless of the configuration.
        private static let always = ["traceparent", "tracestate", ReplayWriter.header.description]

        private let names: [[UInt8]]
        /// A bit set with the lengths of all names, so that most headers are skipped without a comparison.
        private let lengths: UInt64
        /// Whether `names` also contains a header that the parser itself reads (`HeaderName`). If not, the parser does
        /// not compare such headers with `names`.
        let includesKnown: Bool
        private let found: UnsafeMutablePointer<RecordHeader>
        private var count = 0
        private var bytes = 0

        init(_ configured: [String]) {
            names = (Self.always + configured).map { Array($0.utf8) }
            lengths = names.reduce(0) { $0 | 1 << UInt64(min($1.count, 63)) }
            includesKnown = names.contains { $0.withUnsafeBytes { HeaderName($0) != nil } }
            found = .allocate(capacity: RecordLimits.copiedHeaders)
        }

        deinit { found.deallocate() }

        mutating func removeAll() {
            count = 0
            bytes = 0
        }

        /// Returns whether the header's name is one of `names`. If it is, adds the header, provided that it has a value
        /// and there is space.
        @inline(__always)
        @discardableResult
        mutating func consider(_ header: RecordHeader) -> Bool {
            guard lengths & 1 &<< UInt64(min(header.name.count, 63)) != 0 else { return false }
            return compare(header)
        }

        private mutating func compare(_ header: RecordHeader) -> Bool {
            let isOne = names.contains { name in
                name.count == header.name.count && name.withUnsafeBytes { header.name.isEqual(to: $0.baseAddress!) }
            }
            guard isOne else { return false }
            guard header.value.baseAddress != nil else { return true }
            let size = header.name.count + header.value.count
            guard count < RecordLimits.copiedHeaders, bytes + size <= RecordLimits.copiedBytes else { return true }
            (found + count).initialize(to: header)
            count += 1
            bytes += size
            return true
        }

        /// The copied headers, valid until `removeAll`.
        var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: found, count: count) }
    }

    /// The members of a JSON object that may be an envelope. The parser reuses the table for each record, and the
    /// table's values are borrowed.
    struct EnvelopeTable: ~Copyable {
        /// The member names that an envelope can have, and `aps`, which marks a payload.
        enum Name: UInt8, CaseIterable {
            case payload, deviceToken, deviceTokens, channelID, app, environment, headers, notBefore, aps

            var text: StaticString {
                switch self {
                case .payload: "payload"
                case .deviceToken: "device_token"
                case .deviceTokens: "device_tokens"
                case .channelID: "channel_id"
                case .app: "app"
                case .environment: "environment"
                case .headers: "headers"
                case .notBefore: "not_before"
                case .aps: "aps"
                }
            }

            /// - Parameter name: The contents of a validated JSON string.
            init?(_ name: UnsafeRawBufferPointer) {
                let candidate: Name?
                switch (name.count, name.first) {
                case (7, UInt8(ascii: "p")): candidate = .payload
                case (12, UInt8(ascii: "d")): candidate = .deviceToken
                case (13, UInt8(ascii: "d")): candidate = .deviceTokens
                case (10, UInt8(ascii: "c")): candidate = .channelID
                case (3, UInt8(ascii: "a")): candidate = name[2] == UInt8(ascii: "p") ? .app : .aps
                case (11, UInt8(ascii: "e")): candidate = .environment
                case (7, UInt8(ascii: "h")): candidate = .headers
                case (10, UInt8(ascii: "n")): candidate = .notBefore
                default: candidate = nil
                }
                if let candidate, candidate.text.spells(name) {
                    self = candidate
                    return
                }
                // JSON allows escapes in names.
                let text = JSONText(checked: name)
                guard text.hasEscapes, let found = Name.allCases.first(where: { text.equals($0.text) }) else {
                    return nil
                }
                self = found
            }
        }

        private var values = ValueTable<Name>()
        /// The name of the first known member that occurs twice, or empty. `unknown` is the name of the first unknown
        /// member, or empty.
        private(set) var duplicate: UnsafeRawBufferPointer = .nothing
        private(set) var unknown: UnsafeRawBufferPointer = .nothing
        /// Whether the value lacks only a target to be an envelope: it has `payload` and no `aps`.
        private(set) var lacksTarget = false

        /// The JSON text of the member's value, or `nil` if the member is absent or `null`. A string includes its
        /// quotes.
        subscript(_ name: Name) -> UnsafeRawBufferPointer? { values[name] }

        /// Reads an object. Returns whether the object is an envelope. An envelope has `payload`, at least one of
        /// `device_token`, `device_tokens` and `channel_id`, and no `aps`.
        ///
        /// - Parameter members: The members that the scan of `value` reported.
        mutating func read(
            _ value: UnsafeRawBufferPointer, _ scan: JSONScan, _ members: UnsafeMutableBufferPointer<JSONMember>
        ) -> Bool {
            values.removeAll()
            duplicate = .nothing
            unknown = .nothing
            lacksTarget = false
            if scan.memberCount <= members.count {
                for member in members[..<scan.memberCount] {
                    let name = value.part(member.nameStart, member.nameEnd)
                    if !add(name, value.part(member.valueStart, member.valueEnd)) { return false }
                }
            } else {
                // The scan reports a limited number of members, which suffices for a valid envelope. This object has
                // more, so parse it again.
                var reader = JSONReader(checked: value)
                do { try reader.enterObject() } catch { return false }
                while let name = reader.nextMember() {
                    if !add(name.bytes, reader.skip()) { return false }
                }
            }
            guard values.contains(.payload) else { return false }
            lacksTarget =
                !values.contains(.deviceToken) && !values.contains(.deviceTokens) && !values.contains(.channelID)
            return !lacksTarget
        }

        /// Adds a member to the table. Returns `false` if the member is `aps`, which an envelope does not have.
        private mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
            guard let known = Name(name) else {
                if unknown.baseAddress == nil { unknown = name }
                return true
            }
            if known == .aps { return false }
            let isNull = value.first == UInt8(ascii: "n")
            if !values.add(known, isNull ? .nothing : value), duplicate.baseAddress == nil { duplicate = name }
            return true
        }
    }

    /// Memory that the parser reuses: members of objects, unescaped strings, and subjects of details.
    struct Scratch: ~Copyable {
        /// The maximum number of members that the parser stores, both for a record's value and for an envelope's
        /// `headers`. Valid envelopes have fewer members.
        static let memberLimit = 16
        static let textLimit = 4_096

        private let room: UnsafeMutablePointer<JSONMember>
        private let text: UnsafeMutableRawBufferPointer
        private var used = 0

        init() {
            room = .allocate(capacity: 2 * Self.memberLimit)
            room.initialize(repeating: JSONMember(), count: 2 * Self.memberLimit)
            text = .allocate(byteCount: Self.textLimit, alignment: 16)
        }

        deinit {
            room.deallocate()
            text.deallocate()
        }

        var members: UnsafeMutableBufferPointer<JSONMember> {
            UnsafeMutableBufferPointer(start: room, count: Self.memberLimit)
        }

        var headerMembers: UnsafeMutableBufferPointer<JSONMember> {
            UnsafeMutableBufferPointer(start: room + Self.memberLimit, count: Self.memberLimit)
        }

        /// Discards the texts of the previous record.
        mutating func removeTexts() { used = 0 }

        /// Returns the decoded text of a JSON string whose contents are `inside`. Returns `inside` itself if it has no
        /// escapes, or if the decoded text does not fit into the scratch memory. In that case, the string or an earlier
        /// one is longer than any valid field.
        mutating func resolve(_ inside: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
            let string = JSONText(checked: inside)
            guard string.hasEscapes else { return inside }
            let free = UnsafeMutableRawBufferPointer(rebasing: text[used...])
            guard let count = string.resolve(into: free) else { return inside }
            used += count
            return UnsafeRawBufferPointer(rebasing: free[..<count])
        }

        /// Copies the text, which stays valid until `removeTexts` is called. Returns `nil` if the text does not fit
        /// into the scratch memory.
        mutating func add(_ string: String) -> UnsafeRawBufferPointer? {
            let free = UnsafeMutableRawBufferPointer(rebasing: text[used...])
            guard string.utf8.count <= free.count else { return nil }
            free.copyBytes(from: string.utf8)
            used += string.utf8.count
            return UnsafeRawBufferPointer(rebasing: free[..<string.utf8.count])
        }
    }
}
