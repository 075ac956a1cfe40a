// The fields on which GASLoC's workers agree, and MAPL's sides and replicas.
#include "agreements.hpp"

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/distributed/peer_communicator.hpp>

namespace truestep::distributed::agreements {
namespace {

struct GaslocGiven {
    gasloc::Settings settings;
    gasloc::State state;
};

Lines start_gasloc(const std::vector<GaslocGiven>& all) {
    return lines_of<Peers>(ranks, run_peers, [&](Peers& peers) {
        const GaslocGiven& given = all[static_cast<std::size_t>(peers.rank())];
        // The state has what its inner optimizer needs.
        gasloc::State state = gasloc::first_state(given.settings, given.state.theta);
        state.rounds = given.state.rounds;
        state.s = given.state.s;
        state.before = given.state.before;
        if (!state.m.empty())
            state.m.front() = given.state.m.front();
        if (!state.v.empty())
            state.v.front() = given.state.v.front();
        gasloc::Worker(given.settings, std::move(state), peers);
    });
}

TEST(Agreements, OfGasloc) {
    static_assert(members<gasloc::Settings>() == 10, "say here how ranks agree on it");
    GaslocGiven usual;
    usual.settings.allow_unstable = true;
    usual.state = gasloc::first_state(usual.settings, Floats(4, 0.5F));
    using Fields = std::vector<Field<GaslocGiven>>;
    Fields fields;
    add_settings(
        fields, usual, [](GaslocGiven& given) -> gasloc::Settings& { return given.settings; }, "has ");
    ASSERT_EQ(fields.size(), members<gasloc::Settings>() - 2 + 5)
        << "all but the edges, and five of `hyper`";
    fields.push_back({"edges", [](GaslocGiven& given, int) { given.settings.given = {{{0, 1, 0.5}}}; }});
    fields.push_back({"number of parameters", [](GaslocGiven& given, int) {
                          given.state.theta.assign(5, 0.5F);
                          given.state.before.assign(5, 0.5F);
                      }});
    const std::string own = "each worker has its own";
    const Fields of_states{{"round", [](GaslocGiven& given, int) { ++given.state.rounds; }},
                           {"s", [](GaslocGiven& given, int) { ++given.state.s; },
                            "workers may take different numbers of inner steps"},
                           {"before", [](GaslocGiven& given, int) { differ(given.state.before); }, own},
                           {"m", [](GaslocGiven& given, int) { given.state.m.front() = 0.25F; }, own},
                           {"v", [](GaslocGiven& given, int) { given.state.v.front() = 0.25F; }, own}};
    std::size_t of_a_state = 0;
    auto count = [&](auto&... parts) { of_a_state = sizeof...(parts); };
    usual.state.fields(count);
    ASSERT_EQ(of_a_state, of_states.size() + 1) << "say here how ranks agree on it";
    fields.insert(fields.end(), of_states.begin(), of_states.end());
    fields.push_back({"parameters", [](GaslocGiven& given, int) { differ(given.state.theta); }});
    expect_agreements<GaslocGiven>("gasloc", usual, start_gasloc, fields);
    // Later the workers' parameters differ by design.
    usual.state.rounds = 1;
    fields.back().reason = own;
    expect_agreements<GaslocGiven>("gasloc, later", usual, start_gasloc, {fields.back()});
}

// MAPL: the two sides of a boundary, and the replicas of its sender.

struct MaplGiven {
    mapl::Settings settings;
    std::function<void(mapl::EndState&)> change = [](mapl::EndState&) {};
    double rate = 0.05; ///< of a replica's first step
};

mapl::EndState state_of(const MaplGiven& given, mapl::Side side) {
    const mapl::Settings& of = given.settings;
    try {
        check(of);
    } catch (const std::exception&) {
        return {}; // no state is possible, and the end refuses the settings
    }
    mapl::EndState state =
        mapl::first_state(of, side, mapl::first_subspace(of.width, of.rank, 1),
                          Floats(static_cast<std::size_t>(of.vocabulary * of.rank), 0.5F));
    if (of.anchors != mapl::Anchors::none)
        state.rows = mapl::anchor_rows(of, side);
    state.codebooks = mapl::first_codebooks(of);
    if (side == mapl::Side::sender)
        state.learned = state.codebooks;
    given.change(state);
    return state;
}

/// The sender is rank 0, the receiver rank 1; the third of `all` has no rank.
Lines start_sides(const std::vector<MaplGiven>& all) {
    return lines_of<Peers>(2, run_peers, [&](Peers& peers) {
        const auto rank = static_cast<std::size_t>(peers.rank());
        if (rank == 0)
            mapl::Sender(all[rank].settings, state_of(all[rank], mapl::Side::sender), peers, 1);
        else
            mapl::Receiver(all[rank].settings, state_of(all[rank], mapl::Side::receiver), peers, 0);
    });
}

Field<MaplGiven> of_end(std::string name, std::function<void(mapl::EndState&)> change,
                        std::string reason = "") {
    return {std::move(name), [change = std::move(change)](MaplGiven& given, int) { given.change = change; },
            std::move(reason)};
}

MaplGiven usual_mapl(mapl::Anchors anchors) {
    MaplGiven given;
    given.settings.width = 6;
    given.settings.rank = 2;
    given.settings.vocabulary = 5;
    given.settings.anchors = anchors;
    given.settings.quantization.codewords = 4;
    return given;
}

TEST(Agreements, OfTheSidesOfMapl) {
    static_assert(members<mapl::Settings>() == 11, "show it in visit_settings");
    static_assert(members<problem::mapl::Quantization>() == 5);
    const MaplGiven usual = usual_mapl(mapl::Anchors::fixed);
    std::vector<Field<MaplGiven>> fields;
    add_settings(
        fields, usual, [](MaplGiven& given) -> mapl::Settings& { return given.settings; }, "has ");
    ASSERT_EQ(fields.size(), 10U + 5U);
    const std::vector<Field<MaplGiven>> of_states{
        of_end("step", [](mapl::EndState& state) { ++state.steps; }),
        of_end("micro-batch", [](mapl::EndState& state) { ++state.micro_batches; }),
        of_end("subspace",
               [](mapl::EndState& state) {
                   for (float& value : state.a)
                       value = -value;
               }),
        of_end(
            "m",
            [](mapl::EndState& state) {
                if (!state.m.empty())
                    differ(state.m);
            },
            "only the sender has it"),
        of_end("anchor", [](mapl::EndState& state) { differ(state.anchor); }),
        of_end("anchor ",
               [](mapl::EndState& state) {
                   for (float& value : state.rows)
                       value = -value;
               }),
        of_end("codebook", [](mapl::EndState& state) { differ(state.codebooks); }),
        of_end(
            "learned",
            [](mapl::EndState& state) {
                if (!state.learned.empty())
                    differ(state.learned);
            },
            "only the sender has it")};
    fields.insert(fields.end(), of_states.begin(), of_states.end());
    mapl::EndState state;
    std::size_t of_a_state = 0;
    auto count = [&](auto&... parts) { of_a_state = sizeof...(parts); };
    state.fields(count);
    ASSERT_EQ(of_a_state, of_states.size()) << "say here how ranks agree on it";
    expect_agreements<MaplGiven>("mapl", usual, start_sides, fields);
    const std::string own = "each side trains its own";
    expect_agreements<MaplGiven>("mapl, anchors two", usual_mapl(mapl::Anchors::two), start_sides,
                                 {of_end(
                                     "anchor", [](mapl::EndState& other) { differ(other.anchor); }, own)});
}

/// Replica p of the boundary has its sender at rank 2p and its receiver at 2p + 1. Only senders differ
/// from each other.
Lines start_replicas(const std::vector<MaplGiven>& all) {
    Lines lines = lines_of<Peers>(2 * ranks, run_peers, [&](Peers& peers) {
        const MaplGiven& given = all[static_cast<std::size_t>(peers.rank() / 2)];
        if (peers.rank() % 2 == 1) {
            mapl::Receiver(given.settings, state_of(given, mapl::Side::receiver), peers, peers.rank() - 1)
                .end_step();
            return;
        }
        PeerCommunicator replicas(peers, {0, 2, 4});
        mapl::Sender(given.settings, state_of(given, mapl::Side::sender), peers, peers.rank() + 1,
                     &replicas)
            .end_step(given.rate);
    });
    return {lines[0], lines[2], lines[4]};
}

TEST(Agreements, OfTheReplicasOfMapl) {
    const MaplGiven usual = usual_mapl(mapl::Anchors::two);
    std::vector<Field<MaplGiven>> fields;
    add_settings(
        fields, usual, [](MaplGiven& given) -> mapl::Settings& { return given.settings; }, "has ");
    const std::string own = "each replica has its own";
    const std::vector<Field<MaplGiven>> of_states{
        {"rate", [](MaplGiven& given, int which) { given.rate = another(given.rate, which); }},
        of_end("step", [](mapl::EndState& state) { ++state.steps; }),
        of_end(
            "micro-batch", [](mapl::EndState& state) { ++state.micro_batches; }, own),
        of_end("subspace",
               [](mapl::EndState& state) {
                   for (float& value : state.a)
                       value = -value;
               }),
        of_end("first moment",
               [](mapl::EndState& state) {
                   if (!state.m.empty())
                       differ(state.m);
               }),
        of_end("anchor", [](mapl::EndState& state) { differ(state.anchor); }),
        of_end("anchor ",
               [](mapl::EndState& state) {
                   for (float& value : state.rows)
                       value = -value;
               }),
        of_end(
            "codebook", [](mapl::EndState& state) { differ(state.codebooks); }, own),
        of_end(
            "learned",
            [](mapl::EndState& state) {
                if (!state.learned.empty())
                    differ(state.learned);
            },
            own)};
    fields.insert(fields.end(), of_states.begin(), of_states.end());
    for (Field<MaplGiven>& field : fields)
        field.number.clear(); // a boundary that ends does not know its replica's number
    expect_agreements<MaplGiven>("mapl, replicas", usual, start_replicas, fields, "replica 1");
}

} // namespace
} // namespace truestep::distributed::agreements
