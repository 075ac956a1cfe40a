// Runs implementations on the ranks of an MPI job, with a communicator or peers for each run.
#include <truestep/gate/group.hpp>

#include <utility>

#include <truestep/distributed/mpi_comm.hpp>

namespace truestep::gate {

namespace {

using distributed::Communicator;
using distributed::Traffic;

class MpiGroup final : public Group {
  public:
    /// Ranks without a part in a run wait on the world's communicator as long as it takes.
    MpiGroup(std::chrono::milliseconds timeout, std::function<std::string()> doing)
        : options_{timeout}, doing_(std::move(doing)),
          world_(distributed::make_mpi_communicator({std::chrono::hours(24)})) {}

    std::string name() const override { return "mpi"; }
    bool takes(int workers) const override { return workers >= 1 && workers <= world_->size(); }

    void run(int workers, const Work& work) const override { run_in_pieces(workers, 0, work); }

    void run_in_pieces(int workers, std::size_t most, const Work& work) const override {
        on_first(workers, [&](MPI_Comm ranks) {
            const auto communicator = distributed::make_mpi_communicator(ranks, options_of(most));
            try {
                work(*communicator);
            } catch (const std::exception& error) {
                communicator->abort(error.what() + doing_());
                throw;
            }
        });
    }

    void run_peers(int workers, const PeerWork& work) const override {
        run_peers_in_pieces(workers, 0, work);
    }

    void run_peers_in_pieces(int workers, std::size_t most, const PeerWork& work) const override {
        on_first(workers, [&](MPI_Comm ranks) {
            // Some cases have a worker end, and others that need it; the job must go on.
            distributed::MpiOptions options = options_of(most);
            options.ends_job = false;
            const auto peers = distributed::make_mpi_peers(ranks, options);
            try {
                work(*peers);
            } catch (const std::exception& error) {
                world_->abort(error.what() + doing_());
                throw;
            }
        });
    }

    std::vector<Bytes> exchange(int workers, const std::function<Bytes(int)>& mine) const override {
        const Bytes own = world_->rank() < workers ? mine(world_->rank()) : Bytes{};
        return gather(own);
    }

    bool any(bool here) const override {
        for (const int there : distributed::gather_records(*world_, here ? 1 : 0))
            if (there != 0)
                return true;
        return false;
    }

    std::string told(const std::string& by_rank_0) const override {
        const Bytes text = gather(speaks() ? Bytes(by_rank_0.begin(), by_rank_0.end()) : Bytes{}).front();
        return {text.begin(), text.end()};
    }

    void abort(const std::string& reason) const override { world_->abort(reason); }

    bool speaks() const override { return world_->rank() == 0; }

  private:
    [[nodiscard]] distributed::MpiOptions options_of(std::size_t most) const {
        distributed::MpiOptions options = options_;
        if (most > 0)
            options.largest_count = most;
        return options;
    }

    template <class Run>
    void on_first(int workers, const Run& run) const {
        const bool takes_part = world_->rank() < workers;
        MPI_Comm ranks = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, world_->rank(), &ranks);
        if (!takes_part)
            return;
        run(ranks);
        MPI_Comm_free(&ranks);
    }

    std::vector<Bytes> gather(const Bytes& own) const {
        std::vector<std::size_t> sizes;
        std::size_t total = 0;
        for (const std::size_t size : distributed::gather_records(*world_, own.size())) {
            sizes.push_back(size);
            total += size;
        }
        Bytes together(total);
        world_->start_all_gather(Traffic::agreement, own.data(), together.data(), sizes)->wait();
        std::vector<Bytes> all;
        std::size_t at = 0;
        for (const std::size_t size : sizes) {
            all.emplace_back(together.begin() + static_cast<std::ptrdiff_t>(at),
                             together.begin() + static_cast<std::ptrdiff_t>(at + size));
            at += size;
        }
        return all;
    }

    distributed::MpiOptions options_;
    std::function<std::string()> doing_;
    std::unique_ptr<Communicator> world_;
};

} // namespace

std::shared_ptr<const Group> make_mpi_group(std::chrono::milliseconds timeout,
                                            std::function<std::string()> doing) {
    return std::make_shared<MpiGroup>(timeout, std::move(doing));
}

} // namespace truestep::gate
