import Foundation
import Glibc
import TestSupport
import Testing

extension EndToEnd {
    /// Tests the table, the statements and the command of the article on token clean-up, unchanged, with a real
    /// PostgreSQL.
    @Suite struct TokenCleanUpTests {
        /// The article's statements in order: the table, the registration, the file `delete-tokens.sql`.
        private let statements: [String]
        private let command: String

        init() throws {
            let article = "Sources/Worker/Worker.docc/TokenCleanUp.md"
            statements = try Repository.blocks("sql", of: article)
            let commands = try Repository.blocks("sh", of: article)
            command = try #require(commands.first)
            try #require(statements.count == 3 && commands.count == 1)
        }

        /// Of 500 dead tokens 50 were registered again, and one more is registered while the statement runs. tail is
        /// killed meanwhile. The other tokens are deleted. When all records are read again, no more are deleted.
        @Test(
            .needsInstalled(.postgres, "postgresql"), .needs(.worker, .broker, .kcat))
        func `Only dead tokens are deleted`() throws {
            func dead(_ number: Int) -> String { "fa174101" + hex(number, digits: 56) }
            let database = try PostgreSQL()
            try database.run(statements[0])
            // Every tenth dead token was registered after its death, or in the same millisecond. The others were
            // registered in the millisecond before.
            try database.run(
                """
                insert into device_tokens select lpad(to_hex(n), 64, '0'), n, '2019-01-01' from generate_series(1, 100) n;
                insert into device_tokens (token, account, registered_at)
                select 'fa174101' || lpad(to_hex(n), 56, '0'), n, to_timestamp(0) + interval '1 ms' * (1600000000000 + n
                    + case when n = 10 then 0 when n % 10 > 0 or n = 30 then -1 else 1 end)
                from generate_series(0, 499) n;
                """)
            // This uses the article's registration, with an upper-case token.
            try database.run(statements[1], ["token": dead(30).uppercased(), "account": "30"])

            let scene = try Scene("clean-up")
            let topic = scene.configuration.unregistered
            try scene.configure()
            try scene.write(statements[2], to: "delete-tokens.sql")
            try scene.kcat(
                (0..<500).map {
                    let members = #""reason":"Unregistered","unregistered_at_ms":\#(1_600_000_000_000 + $0)"#
                    return "\(dead($0))\u{1e}" + #"{"device_token":"\#(dead($0))",\#(members),"observed_at_ms":1}"#
                }, to: topic, options: ["-K\\x1e"])

            // If a statement fails, its records are not committed.
            try database.run("alter table device_tokens rename to not_there_yet;")
            let early = try startTail(database, scene)
            try early.waitFor("the command exited with 3; ")
            #expect(try early.stop() == .exited(1), "\(early.text)")
            try database.run("alter table not_there_yet rename to device_tokens;")

            // The registration is not committed yet, so the statement that finds it must wait.
            let session = try database.session(["--quiet", "-vtoken=\(dead(123))", "-vaccount=123"])
            session.write("begin;\n\(statements[1])\\echo registered\n")
            try session.waitFor("registered")
            let tail = try startTail(database, scene, more: "--batch", "100")
            try eventually("a statement that waits for the registration") {
                try database.run("select count(*) from pg_stat_activity where wait_event_type = 'Lock';") == "1"
            }
            // tail is killed, but its psql continues and finds that the token is registered again.
            try tail.killNow()
            session.write("commit;\n")
            let other = try startTail(database, scene)
            try KafkaBroker.shared?.awaitCommits([("token-cleaner", topic)])
            #expect(try other.stop() == .exited(0), "\(other.text)")
            let counts = """
                select count(*), count(*) filter (where token like 'fa174101%'),
                    count(*) filter (where token like 'fa174101%' and (account % 10 = 0 or account = 123))
                from device_tokens;
                """
            #expect(try database.run(counts) == "151|51|51")

            // Another group reads all records again.
            let again = try startTail(database, scene, group: "token-cleaner-again", more: "--count", "500")
            #expect(try again.wait() == .exited(0), "\(again.text)")
            #expect(try database.run(counts) == "151|51|51")
        }

        /// Starts the article's command in the scene's folder, with this group's name.
        private func startTail(
            _ database: PostgreSQL, _ scene: Scene, group: String = "token-cleaner", more: String...
        ) throws -> ChildProcess {
            let programs = URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent().path
            let path = ProcessInfo.processInfo.environment["PATH", default: ""]
            let line = command.trimmingCharacters(in: .newlines).replacing("token-cleaner", with: group)
            return try ChildProcess(
                "sh", ["-c", "cd '\(scene.folder.path)' && exec \(([line] + more).joined(separator: " "))"],
                environment: database.environment.merging(["PATH": "\(programs):\(path)"]) { $1 })
        }
    }
}

/// A PostgreSQL server for one test, in its own folder and on a Unix socket only. It ends with the object.
final class PostgreSQL {
    /// The environment variables with which `psql` connects to it.
    let environment: [String: String]
    private let folder: URL
    private let server: ChildProcess

    init() throws {
        let programs = URL(fileURLWithPath: try Tool.postgres.path()).deletingLastPathComponent()
        // A socket's path has at most 107 bytes.
        let name = "postgres-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        environment = ["PGHOST": folder.path, "PGUSER": "postgres", "PGDATABASE": "postgres"]
        let data = folder.appending(path: "data").path
        // PostgreSQL refuses to run as root.
        var words: [String] = []
        if geteuid() == 0 {
            guard let user = getpwnam("postgres"), chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid) == 0
            else { throw Unexpected("there is no user postgres to run PostgreSQL as") }
            words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig", "KILL", "--"]
        }
        func start(_ program: String, _ arguments: String...) throws -> ChildProcess {
            let all = words + [programs.appending(path: program).path, "-D", data] + arguments
            return try ChildProcess(all[0], Array(all.dropFirst()))
        }
        let made = try start(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        guard try made.wait() == .exited(0) else { throw Unexpected("initdb: \(made.text)") }
        server = try start("postgres", "-k", folder.path, "-c", "listen_addresses=", "-c", "fsync=off")
        try server.waitFor("database system is ready to accept connections")
    }

    deinit {
        // SIGINT closes the connections and ends the server in order.
        server.signal(SIGINT)
        _ = try? server.wait()
        try? FileManager.default.removeItem(at: folder)
    }

    /// Runs statements with psql variables. Returns the last statement's rows as text, with `|` between columns.
    @discardableResult
    func run(_ statements: String, _ variables: [String: String] = [:]) throws -> String {
        let session = try session(["--no-align", "--tuples-only", "--quiet"] + variables.map { "-v\($0)=\($1)" })
        session.write(statements)
        session.closeInput()
        guard try session.wait() == .exited(0) else { throw Unexpected("psql: \(session.text)") }
        return session.text.trimmingCharacters(in: .newlines)
    }

    /// Returns a psql process that reads statements from its standard input and ends at the first error.
    func session(_ arguments: [String] = []) throws -> ChildProcess {
        try ChildProcess("psql", ["--no-psqlrc", "--set=ON_ERROR_STOP=1"] + arguments, environment: environment)
    }
}
