import PushRecords
import Testing

@testable import APNsSimulator

struct ProviderTokenTests {
    static let nowS: Int64 = 1_700_000_000

    private let maker: TokenMaker

    init() throws { maker = try TokenMaker() }

    /// A connection and a token reader, with times in seconds.
    struct World {
        var credential = ConnectionCredential()
        var reader: ProviderTokenReader

        init(_ keys: ProviderKey...) { reader = ProviderTokenReader(keys: keys) }

        mutating func send(_ authorization: String?, atS: Int64 = nowS) -> ReasonCode {
            let value = authorization.map { lent($0) } ?? UnsafeRawBufferPointer(start: nil, count: 0)
            return credential.check(value, reader: &reader, wallMs: atS * 1000)
        }
    }

    @Test func `A signed token is accepted repeatedly, and its signature is verified once`() throws {
        var world = World(maker.providerKey)
        let bearer = maker.bearer(issuedAt: Self.nowS)
        for _ in 0..<3 { #expect(world.send(bearer) == .none) }
        #expect(world.credential.isKnown)
        // A second connection uses the cached verification.
        world.credential = ConnectionCredential()
        #expect(world.send(bearer) == .none && world.reader.cache.count == 1)
    }

    @Test func `Missing and malformed tokens are refused`() throws {
        let good = maker.token(issuedAt: Self.nowS)
        let parts = good.split(separator: ".")
        let missing = [nil, "", "bearer ", "basic " + good]
        let valid = ["Bearer " + good, "bearer " + maker.token(claims: #"{"iss":"TEAM123456","iat":1700000000.5}"#)]
        let invalid = [
            "x", "\(parts[0]).\(parts[1])", "\(good).x", "\(good)=", "\(good.dropLast(4))",
            "\(parts[0]).\(parts[1]).\(String(repeating: "A", count: 86))",
            maker.token(header: #"{"alg":"HS256","kid":"SIMULATOR1"}"#), maker.token(header: #"{"alg":"ES256"}"#),
            maker.token(header: #"{"alg":"ES256","kid":"OTHERKEY12"}"#),
            maker.token(claims: #"{"iss":"TEAM123456","iat":"then"}"#), maker.token(claims: #"{"iss":"TEAM123456"}"#),
            maker.token(claims: #"{"iat":1700000000}"#), maker.token(claims: #"{"iss":"OTHERTEAM1","iat":1700000000}"#),
            String(repeating: "a", count: 5000),
        ]
        let tables: [(ReasonCode, [String?])] = [
            (.missingProviderToken, missing), (.none, valid), (.invalidProviderToken, invalid.map { "bearer " + $0 }),
        ]
        for (reason, authorizations) in tables {
            for authorization in authorizations {
                var world = World(maker.providerKey)
                #expect(world.send(authorization) == reason, "\(authorization?.prefix(60) ?? "none")")
            }
        }
    }

    @Test func `Nonstandard token forms that APNs accepts are accepted and reported once`() throws {
        let cases = [
            (maker.token(signature: TokenMaker.der), ["der_signatures"]),
            (maker.token(isPadded: true), ["padded_tokens"]),
            (maker.token(isPadded: true, signature: TokenMaker.der), ["der_signatures", "padded_tokens"]),
            (maker.token(claims: #"{"iss":"TEAM123456","iat":"1700000000"}"#), ["iat_strings"]),
        ]
        for (token, leniencies) in cases {
            var world = World(maker.providerKey)
            for _ in 0..<2 { #expect(world.send("bearer " + token) == .none) }
            #expect(world.reader.leniencies == leniencies)
        }
    }

    @Test func `A token with a forged or damaged signature is refused`() throws {
        let forger = try TokenMaker()
        var world = World(maker.providerKey)
        #expect(world.send(forger.bearer(issuedAt: Self.nowS)) == .invalidProviderToken)
        #expect(world.send("bearer " + forger.token(signature: TokenMaker.der)) == .invalidProviderToken)
        for count in [0, 1, 2, 7, 8, 20, 63, 65, 69] {
            let cut = maker.token { Array(TokenMaker.der($0).prefix(count)) }
            #expect(world.send("bearer " + cut) == .invalidProviderToken, "\(count)")
            let wrong = maker.token { _ in [0x30, UInt8(max(0, count - 2))] + [UInt8](repeating: 2, count: count) }
            #expect(world.send("bearer " + wrong) == .invalidProviderToken, "\(count)")
        }
    }

    /// Tokens of one connection: their `iat`, the times of the requests (both in seconds after `nowS`) and the answers.
    static let traces: [(String, [(issuedAt: Int64, at: Int64, reason: ReasonCode)])] = [
        (
            "a token expires after an hour, and any newer token may then replace it",
            [
                (0, 0, .none), (0, 3_599, .none), (60, 3_599, .tooManyProviderTokenUpdates),
                (0, 3_600, .expiredProviderToken), (60, 3_600, .none),
            ]
        ),
        ("an expired token is not the first token", [(0, 3_600, .expiredProviderToken), (3_600, 3_600, .none)]),
        ("a token is invalid more than 300 s before its iat", [(301, 0, .invalidProviderToken), (300, 0, .none)]),
        (
            "a token update within twenty minutes is refused, even if it returns to the first token",
            [
                (0, 0, .none), (1_199, 1_199, .tooManyProviderTokenUpdates), (0, 1_199, .none), (1_200, 1_200, .none),
                (0, 1_201, .tooManyProviderTokenUpdates),
            ]
        ),
        ("an old first token may be replaced at once", [(-49 * 60, 0, .none), (60, 60, .none)]),
    ]

    @Test(arguments: traces.indices)
    func `The age and the update rate of provider tokens are limited`(index: Int) {
        let (name, steps) = Self.traces[index]
        var world = World(maker.providerKey)
        // Two tokens with the same `iat` would differ, since each signature is random.
        let bearers = Dictionary(
            steps.map { ($0.issuedAt, maker.bearer(issuedAt: Self.nowS + $0.issuedAt)) }, uniquingKeysWith: { $1 })
        for (place, step) in steps.enumerated() {
            #expect(world.send(bearers[step.issuedAt], atS: Self.nowS + step.at) == step.reason, "\(name), \(place)")
        }
    }

    @Test func `A connection refuses tokens of another key or team than its first token`() throws {
        var other = maker
        other.keyID = "OTHERKEY12"
        var team = maker
        team.teamID = "OTHERTEAM1"
        let anyTeam = ProviderKey(keyID: maker.keyID, key: maker.providerKey.key)
        var world = World(anyTeam, other.providerKey)
        let first = maker.bearer(issuedAt: Self.nowS)
        #expect(world.send(first) == .none)
        #expect(world.send(other.bearer(issuedAt: Self.nowS)) == .unrelatedKeyIdInToken)
        #expect(world.send(team.bearer(issuedAt: Self.nowS)) == .invalidProviderToken)
        #expect(world.send(first) == .none)
        var fresh = World(anyTeam, other.providerKey)
        #expect(fresh.send(other.bearer(issuedAt: Self.nowS)) == .none)
    }

    @Test func `The token cache has a limit`() throws {
        var world = World(try TokenMaker().providerKey)
        for second in 0..<600 {
            #expect(world.send(maker.bearer(issuedAt: Self.nowS - Int64(second))) == .invalidProviderToken)
        }
        #expect(world.reader.cache.count <= ProviderTokenReader.cacheLimit)
    }
}
