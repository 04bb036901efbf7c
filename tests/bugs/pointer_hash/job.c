/* 300 nodes in a table that hashes pointers; their registers are numbered as the table hands them
 * out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES 300
#define SLOTS 1024

struct node {
    int number, reg;
    char body[200];
};

static struct node *slots[SLOTS];

static void insert(struct node *node)
{
    uint64_t h = (uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15u >> 54;

    while (slots[h])
        h = (h + 1) % SLOTS;
    slots[h] = node;
}

int main(void)
{
    unsigned code = 0;
    int next = 0;

    for (int i = 0; i < NODES; i++) {
        struct node *node = malloc(sizeof(*node));

        if (!node)
            return 1;
        node->number = i;
        insert(node);
    }
    for (int s = 0; s < SLOTS; s++) {
        if (!slots[s])
            continue;
        slots[s]->reg = next++;
        code = code * 31 + (unsigned)(slots[s]->number * 1000 + slots[s]->reg);
    }
    printf("code %08x\n", code);
    for (int s = 0; s < SLOTS; s++)
        free(slots[s]);
    return 0;
}
