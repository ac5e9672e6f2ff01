import PushRecords
import TLS
import Testing

@testable import APNsSimulator

struct ProviderTokenTests {
    static let nowS: Int64 = 1_700_000_000

    private let maker: TokenMaker

    init() throws { maker = try TokenMaker() }

    /// One connection and a reader, at a time in seconds.
    struct World {
        var credential = ConnectionCredential()
        var reader: ProviderTokenReader
        var lifetimes = TokenLifetimes()

        init(_ keys: [ProviderKey], environment: PushEnvironment = .production) {
            reader = ProviderTokenReader(keys: keys, environment: environment)
        }

        mutating func send(_ authorization: String?, atS: Int64 = nowS) -> ReasonCode {
            let value = authorization.map { lent($0) } ?? UnsafeRawBufferPointer(start: nil, count: 0)
            return credential.check(value, reader: &reader, lifetimes: lifetimes, wallMs: atS * 1000)
        }
    }

    @Test func `A signed token passes again and again`() throws {
        var world = World([maker.providerKey])
        let bearer = maker.bearer(issuedAt: Self.nowS)
        for _ in 0..<3 { #expect(world.send(bearer) == .none) }
        #expect(world.credential.isKnown)
    }

    @Test func `A signature is verified only once`() throws {
        let count = Counter()
        let key = ProviderKey(keyID: maker.keyID) { _, _ in
            count.value += 1
            return true
        }
        var world = World([key])
        let bearer = maker.bearer(issuedAt: Self.nowS)
        for _ in 0..<5 { #expect(world.send(bearer) == .none) }
        var other = World([key])
        other.reader = world.reader
        #expect(other.send(bearer) == .none)
        #expect(count.value == 1)
    }

    final class Counter: @unchecked Sendable { var value = 0 }

    @Test func `Missing and malformed tokens are refused`() throws {
        let good = maker.token(issuedAt: Self.nowS)
        let parts = good.split(separator: ".")
        let table: [(String?, ReasonCode)] = [
            (nil, .missingProviderToken),
            ("", .missingProviderToken),
            ("bearer ", .missingProviderToken),
            ("basic " + good, .missingProviderToken),
            ("Bearer " + good, .none),
            ("bearer x", .invalidProviderToken),
            ("bearer \(parts[0]).\(parts[1])", .invalidProviderToken),
            ("bearer \(good).x", .invalidProviderToken),
            ("bearer \(good)=", .invalidProviderToken),
            ("bearer \(good.dropLast(4))", .invalidProviderToken),
            ("bearer \(parts[0]).\(parts[1]).\(String(repeating: "A", count: 86))", .invalidProviderToken),
            ("bearer " + maker.token(header: #"{"alg":"HS256","kid":"SIMULATOR1"}"#), .invalidProviderToken),
            ("bearer " + maker.token(header: #"{"alg":"ES256"}"#), .invalidProviderToken),
            ("bearer " + maker.token(header: #"{"alg":"ES256","kid":"OTHERKEY12"}"#), .invalidProviderToken),
            ("bearer " + maker.token(claims: #"{"iss":"TEAM123456","iat":"1700000000"}"#), .invalidProviderToken),
            ("bearer " + maker.token(claims: #"{"iss":"TEAM123456"}"#), .invalidProviderToken),
            ("bearer " + maker.token(claims: #"{"iat":1700000000}"#), .invalidProviderToken),
            ("bearer " + maker.token(claims: #"{"iss":"OTHERTEAM1","iat":1700000000}"#), .invalidProviderToken),
            ("bearer " + maker.token(claims: #"{"iss":"TEAM123456","iat":1700000000.5}"#), .none),
            ("bearer " + String(repeating: "a", count: 5000), .invalidProviderToken),
        ]
        for (authorization, reason) in table {
            var world = World([maker.providerKey])
            #expect(world.send(authorization) == reason, "\(authorization?.prefix(60) ?? "none")")
        }
    }

    @Test func `DER signatures and padding pass as at APNs`() throws {
        for token in [
            maker.token(signature: TokenMaker.der), maker.token(isPadded: true),
            maker.token(isPadded: true, signature: TokenMaker.der),
        ] {
            var world = World([maker.providerKey])
            #expect(world.send("bearer " + token) == .none)
        }
    }

    @Test func `A forged or damaged signature in DER is invalid`() throws {
        let forger = try TokenMaker()
        var world = World([maker.providerKey])
        #expect(world.send("bearer " + forger.token(signature: TokenMaker.der)) == .invalidProviderToken)
        for count in [0, 1, 2, 7, 8, 20, 63, 65, 69] {
            let cut = maker.token { Array(TokenMaker.der($0).prefix(count)) }
            #expect(world.send("bearer " + cut) == .invalidProviderToken, "\(count)")
            let wrong = maker.token { _ in [0x30, UInt8(max(0, count - 2))] + [UInt8](repeating: 2, count: count) }
            #expect(world.send("bearer " + wrong) == .invalidProviderToken, "\(count)")
        }
    }

    @Test func `An expired token may be replaced however young it is`() throws {
        var world = World([maker.providerKey])
        world.lifetimes.expiresAfterMs = 60_000
        func send(_ issuedAt: Int64, at now: Int64) -> ReasonCode {
            world.send(maker.bearer(issuedAt: issuedAt), atS: now)
        }
        #expect(send(Self.nowS, at: Self.nowS) == .none)
        #expect(send(Self.nowS + 59, at: Self.nowS + 59) == .tooManyProviderTokenUpdates)
        #expect(send(Self.nowS, at: Self.nowS + 60) == .expiredProviderToken)
        #expect(send(Self.nowS + 60, at: Self.nowS + 60) == .none)
    }

    @Test func `Another key's signature is invalid`() throws {
        let forger = try TokenMaker()
        var world = World([maker.providerKey])
        #expect(world.send(forger.bearer(issuedAt: Self.nowS)) == .invalidProviderToken)
        #expect(!world.credential.isKnown)
    }

    @Test func `Without any key a well formed token passes`() throws {
        var world = World([])
        #expect(world.send(maker.bearer(issuedAt: Self.nowS)) == .none)
        #expect(world.send("bearer x") == .invalidProviderToken)
    }

    @Test func `It expires after an hour`() throws {
        var world = World([maker.providerKey])
        let bearer = maker.bearer(issuedAt: Self.nowS)
        #expect(world.send(bearer, atS: Self.nowS + 3599) == .none)
        #expect(world.send(bearer, atS: Self.nowS + 3600) == .expiredProviderToken)
        var late = World([maker.providerKey])
        #expect(late.send(bearer, atS: Self.nowS + 3600) == .expiredProviderToken)
        #expect(!late.credential.isKnown)
        #expect(late.send(maker.bearer(issuedAt: Self.nowS + 3600), atS: Self.nowS + 3600) == .none)
    }

    @Test func `A token from the future is invalid`() throws {
        var world = World([maker.providerKey])
        #expect(world.send(maker.bearer(issuedAt: Self.nowS + 301)) == .invalidProviderToken)
        #expect(world.send(maker.bearer(issuedAt: Self.nowS + 300)) == .none)
    }

    @Test func `Updates sooner than twenty minutes are too many`() throws {
        var world = World([maker.providerKey])
        let first = maker.bearer(issuedAt: Self.nowS)
        #expect(world.send(first) == .none)
        #expect(
            world.send(maker.bearer(issuedAt: Self.nowS + 1199), atS: Self.nowS + 1199) == .tooManyProviderTokenUpdates)
        #expect(world.send(first, atS: Self.nowS + 1199) == .none, "the first one goes on")
        #expect(world.send(maker.bearer(issuedAt: Self.nowS + 1200), atS: Self.nowS + 1200) == .none)
        #expect(world.send(first, atS: Self.nowS + 1201) == .tooManyProviderTokenUpdates, "back again is an update too")
    }

    @Test func `A connection opened just before the renewal is fine`() throws {
        var world = World([maker.providerKey])
        #expect(world.send(maker.bearer(issuedAt: Self.nowS - 49 * 60)) == .none)
        #expect(world.send(maker.bearer(issuedAt: Self.nowS + 60), atS: Self.nowS + 60) == .none)
    }

    @Test func `Another key or team on the same connection`() throws {
        var other = maker
        other.keyID = "OTHERKEY12"
        var team = maker
        team.teamID = "OTHERTEAM1"
        let anyTeam = ProviderKey(keyID: maker.keyID, verify: maker.providerKey.verify)
        var world = World([anyTeam, other.providerKey])
        let first = maker.bearer(issuedAt: Self.nowS)
        #expect(world.send(first) == .none)
        #expect(world.send(other.bearer(issuedAt: Self.nowS)) == .unrelatedKeyIdInToken)
        #expect(world.send(team.bearer(issuedAt: Self.nowS)) == .invalidProviderToken)
        #expect(world.send(first) == .none)
        var fresh = World([anyTeam, other.providerKey])
        #expect(fresh.send(other.bearer(issuedAt: Self.nowS)) == .none)
    }

    @Test func `A key of the other environment`() throws {
        let key = ProviderKey(keyID: maker.keyID, environment: .development, verify: maker.providerKey.verify)
        var production = World([key])
        #expect(production.send(maker.bearer(issuedAt: Self.nowS)) == .badEnvironmentKeyIdInToken)
        var development = World([key], environment: .development)
        #expect(development.send(maker.bearer(issuedAt: Self.nowS)) == .none)
    }

    @Test func `Many distinct tokens do not fill the memory`() throws {
        var world = World([ProviderKey(keyID: maker.keyID) { _, _ in false }])
        for second in 0..<600 {
            #expect(world.send(maker.bearer(issuedAt: Self.nowS - Int64(second))) == .invalidProviderToken)
        }
        #expect(world.reader.cache.count <= ProviderTokenReader.cacheLimit)
    }
}
