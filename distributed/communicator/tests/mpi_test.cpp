// Runs under mpirun with any number of ranks: mpirun -n 3 mpi_test
// Faults, for mpi_faults.sh: mpi_test --hang RANK | --die RANK | --throw RANK | --late RANK | --lose RANK |
// --mix RANK | --hang-in-groups RANK | --unwind RANK

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <truestep/distributed/levels.hpp>
#include <truestep/distributed/mpi_comm.hpp>

namespace {

using namespace truestep::distributed;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds patience = 20s;
constexpr std::chrono::milliseconds short_patience = 2s; // mpi_faults.sh knows this number

std::size_t as_size(int value) {
    return static_cast<std::size_t>(value);
}

/// Uneven sizes, with empty parts.
std::size_t part_size(int from, int to, std::size_t round) {
    const std::size_t mixed = as_size(from) * 7 + as_size(to) * 13 + round * 5;
    return mixed % 3 == 0 ? 0 : mixed % 29 * (round % 4 == 3 ? 200 : 1);
}

std::byte value(int from, int to, std::size_t at) {
    return static_cast<std::byte>(as_size(from) * 31 + as_size(to) * 17 + at);
}

class AllToAll {
  public:
    AllToAll(Communicator& communicator, std::size_t round) : rank_(communicator.rank()) {
        for (int peer = 0; peer < communicator.size(); ++peer) {
            send_sizes_.push_back(part_size(rank_, peer, round));
            receive_sizes_.push_back(part_size(peer, rank_, round));
            for (std::size_t at = 0; at < send_sizes_.back(); ++at)
                send_.push_back(value(rank_, peer, at));
        }
        receive_.resize(std::reduce(receive_sizes_.begin(), receive_sizes_.end()));
        exchange_ = communicator.start_all_to_all(Traffic::payload, send_.data(), send_sizes_,
                                                  receive_.data(), receive_sizes_);
        std::ranges::fill(send_sizes_, 0); // the sizes belong to the caller again at once
    }

    bool wait() {
        exchange_->wait();
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(receive_sizes_.size()); ++peer)
            for (std::size_t at = 0; at < receive_sizes_[as_size(peer)]; ++at)
                if (receive_[begin++] != value(peer, rank_, at))
                    return false;
        return true;
    }

  private:
    int rank_;
    std::vector<std::size_t> send_sizes_;
    std::vector<std::size_t> receive_sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

class AllGather {
  public:
    AllGather(Communicator& communicator, std::size_t round, bool in_place) {
        const int rank = communicator.rank();
        for (int peer = 0; peer < communicator.size(); ++peer)
            sizes_.push_back(part_size(peer, 0, round));
        receive_.resize(std::reduce(sizes_.begin(), sizes_.end()));
        if (!in_place)
            send_.resize(sizes_[as_size(rank)]);
        std::byte* const own =
            in_place ? receive_.data() + std::reduce(sizes_.begin(), sizes_.begin() + rank) : send_.data();
        for (std::size_t at = 0; at < sizes_[as_size(rank)]; ++at)
            own[at] = value(rank, 0, at);
        exchange_ = communicator.start_all_gather(Traffic::mask, own, receive_.data(), sizes_);
    }

    bool wait() {
        exchange_->wait();
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(sizes_.size()); ++peer)
            for (std::size_t at = 0; at < sizes_[as_size(peer)]; ++at)
                if (receive_[begin++] != value(peer, 0, at))
                    return false;
        return true;
    }

  private:
    std::vector<std::size_t> sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

/// Groups for this many ranks: one of a single rank, and one of the rest.
std::vector<int> some_groups(int ranks) {
    return ranks == 1 ? std::vector<int>{1} : std::vector<int>{1, ranks - 1};
}

bool wrong_use_is_refused(Communicator& communicator) {
    std::vector<std::byte> bytes(64);
    const std::vector<std::size_t> sizes(as_size(communicator.size()) + 1, 1);
    try {
        (void)communicator.start_all_gather(Traffic::mask, bytes.data(), bytes.data(), sizes);
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

class Verdict {
  public:
    explicit Verdict(Communicator& communicator) : communicator_(communicator) {}

    /// All ranks agree on it.
    void check(const std::string& what, bool good) {
        const auto all = gather_records(communicator_, good ? 1 : 0);
        const bool passed = std::ranges::all_of(all, [](int each) { return each == 1; });
        ++(passed ? passed_ : failed_);
        if (!passed && communicator_.rank() == 0)
            std::printf("FAILED %s, %d ranks\n", what.c_str(), communicator_.size());
    }

    [[nodiscard]] int report() const {
        if (communicator_.rank() == 0)
            std::printf("%d passed, %d failed\n", passed_, failed_);
        return failed_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }

  private:
    Communicator& communicator_;
    int passed_ = 0;
    int failed_ = 0;
};

int test() {
    const auto communicator = make_mpi_communicator({.timeout = patience});
    Verdict verdict(*communicator);
    verdict.check("name", communicator->name() == "mpi");
    verdict.check("wrong sizes are refused", wrong_use_is_refused(*communicator));
    verdict.check("all are on this machine",
                  mpi_machine_groups() == std::vector<int>{communicator->size()});
    // Ranks in another order: a communicator of the caller's own.
    MPI_Comm backwards = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -communicator->rank(), &backwards);
    {
        const auto reversed = make_mpi_communicator(backwards, {.timeout = patience});
        verdict.check("rank", reversed->rank() == communicator->size() - 1 - communicator->rank());
        verdict.check("all-to-all, ranks reversed", AllToAll(*reversed, 1).wait());
        verdict.check("all-gather, ranks reversed", AllGather(*reversed, 1, true).wait());
    }
    MPI_Comm_free(&backwards);
    return verdict.report();
}

/// An error that is not caught in time: it passes through an exchange under way, or through a session.
struct Left {};

/// Some steps in which one rank fails.
void faulty(const std::string& mode, bool guilty) {
    if (guilty && mode == "--late")
        std::this_thread::sleep_for(10 * short_patience);
    if (guilty && mode == "--unwind")
        throw Left{};
    const auto world = make_mpi_communicator({.timeout = short_patience});
    LevelsCommunicator levels(*world, some_groups(world->size()));
    Communicator* const communicator = mode == "--hang-in-groups" ? &levels : world.get();
    std::unique_ptr<AllGather> mask; // outside: it must not be destroyed before abort() has been called
    try {
        for (std::size_t step = 0; step < 20; ++step) {
            if (mask)
                mask->wait();
            mask = std::make_unique<AllGather>(*communicator, step, true);
            if (guilty && step == 10) {
                if (mode == "--hang" || mode == "--hang-in-groups")
                    std::this_thread::sleep_for(10 * short_patience);
                if (mode == "--die")
                    std::raise(SIGKILL);
                if (mode == "--leave")
                    throw Left{};
                if (mode == "--throw")
                    throw std::runtime_error("thrown on purpose");
                if (mode == "--lose")
                    mask.reset();
                if (mode == "--mix")
                    mask->wait(), mask = std::make_unique<AllGather>(*communicator, step, true),
                                  mask->wait();
            }
            AllToAll(*communicator, step).wait();
        }
        mask->wait();
    } catch (const std::exception& error) {
        communicator->abort(error.what());
    }
}

} // namespace

int main(int argument_count, char** arguments) {
    const MpiSession session(argument_count, arguments);
    if (argument_count == 1)
        return test();
    const std::string mode = arguments[1];
    const std::string guilty = argument_count > 2 ? arguments[2] : "none";
    try {
        const MpiSession inner(argument_count, arguments); // joins the other one
        faulty(mode, guilty == "all" || guilty == std::to_string(session.rank()));
    } catch (const Left&) {
        std::puts("too late: the exchange and the session have been destroyed before");
    }
    return EXIT_SUCCESS;
}
